#include "client/factorctl/json.h"

#include <gtest/gtest.h>

#include <cmath>

namespace factord::client {
namespace {

TEST(Json, NestsAndIndents) {
  JsonWriter json;
  json.BeginObject();
  json.Key("a").Int(1);
  json.Key("b").BeginArray().Bool(true).BeginObject().EndObject().EndArray();
  json.Key("c").BeginArray().EndArray();
  json.EndObject();
  EXPECT_EQ(json.Take(), "{\n  \"a\": 1,\n  \"b\": [\n    true,\n    {}\n  ],\n  \"c\": []\n}\n");
}

TEST(Json, EscapesStrings) {
  EXPECT_EQ(JsonWriter().String("a\"b\\c\n\x01").Take(), "\"a\\\"b\\\\c\\u000a\\u0001\"\n");
}

TEST(Json, KeepsEveryDigit) { EXPECT_EQ(JsonWriter().Double(0.1).Take(), "0.1\n"); }

TEST(Json, NotFiniteIsNull) { EXPECT_EQ(JsonWriter().Double(std::nan("")).Take(), "null\n"); }

}  // namespace
}  // namespace factord::client
