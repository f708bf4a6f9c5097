#include "server/core/trace_context.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

constexpr char kTrace[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kParent[] = "b7ad6b7169203331";

std::string Header(absl::string_view version, absl::string_view trace, absl::string_view parent,
                   absl::string_view flags) {
  return absl::StrCat(version, "-", trace, "-", parent, "-", flags);
}

bool Parses(const std::string& value) { return ParseTraceparent(value).has_value(); }

TEST(Traceparent, TheRecommendationsExamples) {
  const auto sampled = ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  ASSERT_TRUE(sampled);
  EXPECT_EQ(sampled->trace_id.Hex(), kTrace);
  EXPECT_EQ(sampled->span_id.Hex(), kParent);
  EXPECT_TRUE(sampled->sampled);
  const auto not_sampled =
      ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
  ASSERT_TRUE(not_sampled);
  EXPECT_EQ(not_sampled->span_id.Hex(), "00f067aa0ba902b7");
  EXPECT_FALSE(not_sampled->sampled);
}

TEST(Traceparent, FlagsThatAreNotKnownAreIgnored) {
  EXPECT_TRUE(ParseTraceparent(Header("00", kTrace, kParent, "ff"))->sampled);
  EXPECT_FALSE(ParseTraceparent(Header("00", kTrace, kParent, "fe"))->sampled);
  EXPECT_EQ(ParseTraceparent(Header("00", kTrace, kParent, "ff"))->Traceparent(),
            Header("00", kTrace, kParent, "01"));
}

TEST(Traceparent, WhatIsMalformedIsIgnored) {
  EXPECT_FALSE(Parses(""));
  EXPECT_FALSE(Parses("00"));
  EXPECT_FALSE(Parses(Header("00", kTrace, kParent, "0")));
  EXPECT_FALSE(Parses(Header("00", kTrace, kParent, "0x")));
  EXPECT_FALSE(Parses(Header("00", kTrace, kParent, "001")));
  EXPECT_FALSE(Parses(Header("0", kTrace, kParent, "01") + "0"));
  EXPECT_FALSE(Parses(Header("0A", kTrace, kParent, "01")));
  EXPECT_FALSE(Parses(Header("00", "0AF7651916CD43DD8448EB211C80319C", kParent, "01")));
  EXPECT_FALSE(Parses(Header("00", kTrace, "B7AD6B7169203331", "01")));
  EXPECT_FALSE(Parses(Header("00", "0af7651916cd43dd8448eb211c80319", kParent, "01") + " "));
  EXPECT_FALSE(Parses(Header("00", "0af7651916cd43dd8448eb211c80319g", kParent, "01")));
  EXPECT_FALSE(Parses(Header("00", kTrace, "b7ad6b716920333.", "01")));
  EXPECT_FALSE(Parses("00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
  EXPECT_FALSE(Parses("00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01"));
  EXPECT_FALSE(Parses("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01"));
  EXPECT_FALSE(Parses(" " + Header("00", kTrace, kParent, "01")));
}

TEST(Traceparent, IdsOfZeroAreIgnored) {
  EXPECT_FALSE(Parses(Header("00", std::string(32, '0'), kParent, "01")));
  EXPECT_FALSE(Parses(Header("00", kTrace, std::string(16, '0'), "01")));
  EXPECT_TRUE(Parses(Header("00", std::string(31, '0') + "1", std::string(15, '0') + "1", "01")));
}

TEST(Traceparent, ALaterVersionIsReadAsFarAsOursGoes) {
  for (const char* version : {"01", "cc", "fe"}) {
    EXPECT_TRUE(Parses(Header(version, kTrace, kParent, "01")));
    EXPECT_TRUE(Parses(Header(version, kTrace, kParent, "01-what-the-future-will-be-like")));
    EXPECT_FALSE(Parses(Header(version, kTrace, kParent, "01.what-the-future-will-be-like")));
    EXPECT_FALSE(Parses(Header(version, kTrace, kParent, "")));
  }
  // In ours nothing comes after the flags; ff is no version.
  EXPECT_FALSE(Parses(Header("00", kTrace, kParent, "01-more")));
  EXPECT_FALSE(Parses(Header("ff", kTrace, kParent, "01")));
  // What we send is always our version.
  EXPECT_EQ(ParseTraceparent(Header("cc", kTrace, kParent, "01-x"))->Traceparent(),
            Header("00", kTrace, kParent, "01"));
}

TEST(TraceContext, AChildIsInTheTrace_WithASpanOfItsOwn) {
  const auto parent = ParseTraceparent(Header("00", kTrace, kParent, "01"));
  const TraceContext child = parent->Child();
  EXPECT_EQ(child.trace_id, parent->trace_id);
  EXPECT_EQ(child.parent_id, parent->span_id);
  EXPECT_TRUE(child.sampled);
  EXPECT_FALSE(child.span_id.is_zero());
  EXPECT_NE(child.span_id, parent->span_id);
  EXPECT_NE(child.span_id, parent->Child().span_id);
}

TEST(TraceContext, ANewTraceIsSampledAsOftenAsAsked) {
  int sampled = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(NewTrace(0).sampled);
    EXPECT_TRUE(NewTrace(1).sampled);
    sampled += NewTrace(0.5).sampled ? 1 : 0;
  }
  // 500 in the mean; beyond these bounds once in 10^23 runs.
  EXPECT_GT(sampled, 340);
  EXPECT_LT(sampled, 660);
  const TraceContext trace = NewTrace(0);
  EXPECT_TRUE(trace.parent_id.is_zero());
  EXPECT_TRUE(Parses(trace.Traceparent()));
  EXPECT_FALSE(trace.trace_id == NewTrace(0).trace_id);
}

}  // namespace
}  // namespace factord
