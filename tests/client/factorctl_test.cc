#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/factorctl/commands.h"
#include "client/factorctl/progress.h"
#include "client/file_io.h"
#include "client/npy.h"
#include "tests/client/fake_factord.h"
#include "tests/client/test_matrices.h"
#include "tests/support/temporary_folder.h"

namespace factord::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// The one number that is not the fake's: what follows "total: " or "total_ns": up to the line's end
// becomes T.
std::string HideTotal(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (std::string& line : lines) {
    for (const char* name : {"total: ", "  \"total_ns\": "}) {
      if (absl::StartsWith(line, name)) line = absl::StrCat(name, "T");
    }
  }
  return absl::StrJoin(lines, "\n");
}

std::string WithoutWhitespace(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), absl::ascii_isspace), text.end());
  return text;
}

class FactorctlTest : public ::testing::Test {
 protected:
  // The exit code; out_ and err_ have the output.
  int Run(std::vector<std::string> arguments) {
    std::ostringstream out;
    std::ostringstream err;
    Terminal terminal{out, err};
    const int code = RunFactorctl(arguments, &terminal);
    out_ = HideTotal(out.str());
    err_ = err.str();
    return code;
  }

  int RunWithServer(std::vector<std::string> arguments) {
    arguments.push_back("--server=" + fake_.target());
    return Run(std::move(arguments));
  }

  std::string Path(const std::string& name) const { return folder_ / name; }

  std::string Write(const std::string& name, const Matrices& matrices) {
    EXPECT_TRUE(WriteNpy(Path(name), matrices).ok());
    return Path(name);
  }

  // Exact in floating point: Q = I, R = A.
  std::string WriteDiagonals() {
    return Write("A.npy", MakeMatrices(v1::DTYPE_F64, {2, 2, 2}, {2, 0, 0, 3, 4, 0, 0, 5}));
  }

  const testing::TemporaryFolder folder_;
  FakeFactord fake_;
  std::string out_;
  std::string err_;
};

TEST_F(FactorctlTest, NoCommand_IsUsage) {
  EXPECT_EQ(Run({}), 2);
  EXPECT_THAT(err_, StartsWith("Usage: factorctl COMMAND"));
}

TEST_F(FactorctlTest, Help_ListsCommands) {
  EXPECT_EQ(Run({"--help"}), 0);
  for (const char* command : {"qr", "solve", "reduce", "info", "explain", "bench"}) {
    EXPECT_THAT(out_, HasSubstr(std::string("\n  ") + command + " "));
  }
}

TEST_F(FactorctlTest, Version_IsOneLine) {
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_THAT(out_, MatchesRegex("factorctl [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(FactorctlTest, UnknownCommand_IsUsage) {
  EXPECT_EQ(Run({"svd"}), 2);
  EXPECT_THAT(err_, StartsWith("factorctl: there is no command 'svd'.\n"));
}

TEST_F(FactorctlTest, EveryCommandHasHelpWithDefaults) {
  for (const char* command : {"qr", "solve", "reduce", "info", "explain", "bench"}) {
    EXPECT_EQ(Run({command, "--help"}), 0);
    EXPECT_THAT(out_, StartsWith(std::string("Usage: factorctl ") + command));
    EXPECT_THAT(out_, HasSubstr("--server=HOST:PORT\n      Where the server is. "
                                "Default: 127.0.0.1:50051.\n"));
  }
}

TEST_F(FactorctlTest, UnknownFlag_IsUsage) {
  EXPECT_EQ(Run({"info", "--colour"}), 2);
  EXPECT_EQ(err_,
            "factorctl info: there is no flag --colour\nfactorctl info --help lists the flags.\n");
}

TEST_F(FactorctlTest, Qr_TextIsGolden) {
  ASSERT_EQ(RunWithServer({"qr", WriteDiagonals()}), 0) << err_;
  EXPECT_EQ(out_,
            "A: 2x2x2 f64, mode reduced\n"
            "matrix  ||A-QR||/(||A|| m eps)  ||I-Q'Q||/(m eps)\n"
            "     0                       0                  0\n"
            "     1                       0                  0\n"
            "worst                        0                  0\n"
            "statuses: all OK\n"
            "ran on cpu (fake, bucket any), 2 matrices in the largest batch, 1 jobs\n"
            "server: decode 1 us, queue 2 us, pack 3 us, compute 4 ms, unpack 5 us, run 6 ms\n"
            "total: T\n");
}

TEST_F(FactorctlTest, Qr_JsonIsGolden) {
  const std::string path = Write("A.npy", MakeMatrices(v1::DTYPE_F32, {1, 1}, {2}));
  ASSERT_EQ(RunWithServer({"qr", path, "--json"}), 0) << err_;
  EXPECT_EQ(out_, R"({
  "dims": [
    1,
    1
  ],
  "dtype": "f32",
  "mode": "reduced",
  "worst_residual": 0,
  "worst_orthogonality": 0,
  "matrices": [
    {
      "index": 0,
      "residual": 0,
      "orthogonality": 0
    }
  ],
  "statuses": [],
  "report": {
    "backend": "cpu",
    "path": "fake",
    "bucket": "any",
    "batch_matrices": 1,
    "jobs": 1,
    "decode_ns": 1000,
    "queue_ns": 2000,
    "pack_ns": 3000,
    "compute_ns": 4000000,
    "unpack_ns": 5000,
    "run_ns": 6000000
  },
  "total_ns": T
}
)");
}

TEST_F(FactorctlTest, Qr_WritesFactors) {
  ASSERT_EQ(RunWithServer(
                {"qr", WriteDiagonals(), "--out_q=" + Path("Q.npy"), "--out_r=" + Path("R.npy")}),
            0)
      << err_;
  EXPECT_THAT(ValuesOf(*ReadNpy(Path("Q.npy"))), ElementsAre(1, 0, 0, 1, 1, 0, 0, 1));
  EXPECT_THAT(ValuesOf(*ReadNpy(Path("R.npy"))), ElementsAre(2, 0, 0, 3, 4, 0, 0, 5));
}

TEST_F(FactorctlTest, Qr_RawWritesReflectorsAndTau) {
  ASSERT_EQ(RunWithServer({"qr", WriteDiagonals(), "--mode=raw",
                           "--out_reflectors=" + Path("V.npy"), "--out_tau=" + Path("tau.npy")}),
            0)
      << err_;
  EXPECT_THAT(ReadNpy(Path("V.npy"))->dims, ElementsAre(2, 2, 2));
  EXPECT_THAT(ReadNpy(Path("tau.npy"))->dims, ElementsAre(2, 2));
}

TEST_F(FactorctlTest, Qr_ReportsBadMatrix) {
  const std::string path =
      Write("A.npy",
            MakeMatrices(v1::DTYPE_F64, {2, 1, 1}, {1, std::numeric_limits<double>::infinity()}));
  ASSERT_EQ(RunWithServer({"qr", path}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("statuses: 1 not plainly OK\n"
                              "matrix 1: NONFINITE_INPUT\n"));
}

TEST_F(FactorctlTest, Qr_OutputThatModeLacks_IsUsage) {
  EXPECT_EQ(RunWithServer({"qr", WriteDiagonals(), "--mode=r", "--out_q=" + Path("Q.npy")}), 2);
  EXPECT_THAT(err_, StartsWith("factorctl qr: --mode=r has nothing for --out_q\n"));
}

TEST_F(FactorctlTest, Qr_MissingFile_IsOneSentence) {
  EXPECT_EQ(Run({"qr", "/nowhere/A.npy"}), 1);
  EXPECT_EQ(err_,
            "factorctl qr: NOT_FOUND: /nowhere/A.npy: can not be opened: No such file or "
            "directory\n");
}

TEST_F(FactorctlTest, Qr_ServerRefusal_IsOneSentence) {
  google::rpc::Status refusal;
  refusal.set_code(3);
  refusal.set_message("a[0].dims: 2 is\ntoo much");
  fake_.FailNext(refusal, 1);
  EXPECT_EQ(RunWithServer({"qr", WriteDiagonals()}), 1);
  EXPECT_EQ(err_, "factorctl qr: INVALID_ARGUMENT: a[0].dims: 2 is too much\n");
}

TEST_F(FactorctlTest, Solve_TextIsGolden) {
  const std::string a = Write("A.npy", MakeMatrices(v1::DTYPE_F64, {2, 2}, {2, 0, 0, 4}));
  const std::string b = Write("b.npy", MakeMatrices(v1::DTYPE_F64, {2}, {2, 8}));
  ASSERT_EQ(RunWithServer({"solve", a, b}), 0) << err_;
  EXPECT_EQ(out_,
            "A: 2x2, b: 2x1 f64\n"
            "matrix 0: rank 2, residual norm 0\n"
            "  x[0] = 1\n"
            "  x[1] = 2\n"
            "ran on cpu (fake, bucket any), 1 matrices in the largest batch, 1 jobs\n"
            "server: decode 1 us, queue 2 us, pack 3 us, compute 4 ms, unpack 5 us, run 6 ms\n"
            "total: T\n");
}

TEST_F(FactorctlTest, Solve_JsonHasXByRows) {
  const std::string a = Write("A.npy", MakeMatrices(v1::DTYPE_C128, {1, 1}, {2}));
  const std::string b = Write("b.npy", MakeMatrices(v1::DTYPE_F64, {1, 1}, {8}));
  ASSERT_EQ(RunWithServer({"solve", a, b, "--json"}), 0) << err_;
  EXPECT_THAT(WithoutWhitespace(out_),
              StartsWith("{\"unknowns\":[],\"matrices\":[{\"index\":0,\"rank\":1,"
                         "\"residual_norm\":[0],\"x\":[[[4,0]]]}],\"statuses\":[],\"report\":{"));
}

TEST_F(FactorctlTest, Solve_CsvNamesTheUnknowns) {
  ASSERT_TRUE(WriteFile(Path("d.csv"), "area,price\n0,1\n1,3\n2,5\n").ok());
  ASSERT_EQ(RunWithServer({"solve", Path("d.csv"), "--y=price", "--intercept"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\n  intercept = 1\n  area = 2\n"));
}

TEST_F(FactorctlTest, Solve_WritesVectorForVector) {
  const std::string a = Write("A.npy", MakeMatrices(v1::DTYPE_F64, {2, 2}, {2, 0, 0, 4}));
  const std::string b = Write("b.npy", MakeMatrices(v1::DTYPE_F64, {2}, {2, 8}));
  ASSERT_EQ(RunWithServer({"solve", a, b, "--out=" + Path("x.npy")}), 0) << err_;
  EXPECT_THAT(ReadNpy(Path("x.npy"))->dims, ElementsAre(2));
  EXPECT_THAT(ValuesOf(*ReadNpy(Path("x.npy"))), ElementsAre(1, 2));
}

TEST_F(FactorctlTest, Reduce_TextIsGolden) {
  // Exact in floating point: R = (A b).
  const std::string top = Write("1.npy", MakeMatrices(v1::DTYPE_F64, {1, 3}, {2, 0, 2}));
  const std::string rest = Write(
      "2.npy", MakeMatrices(v1::DTYPE_F64, {2, 3}, {0, 0, 4, 0, 8, 3}, v1::LAYOUT_COLUMN_MAJOR));
  ASSERT_EQ(RunWithServer({"reduce", top, rest, "--y=2"}), 0) << err_;
  EXPECT_EQ(out_,
            "A: 3x2 f64\n"
            "R: 2x2, its diagonal 2 4\n"
            "rank 2, residual norm 3\n"
            "  x[0] = 1 +- 1.5\n"
            "  x[1] = 2 +- 0.75\n"
            "ran on cpu (fake, bucket any), 1 matrices in the largest batch, 1 jobs\n"
            "server: decode 1 us, queue 2 us, pack 3 us, compute 4 ms, unpack 5 us, run 6 ms\n"
            "total: T\n");
}

TEST_F(FactorctlTest, Reduce_JsonHasRByRows) {
  const std::string a = Write("A.npy", MakeMatrices(v1::DTYPE_F64, {2, 2}, {2, 1, 0, 4}));
  ASSERT_EQ(RunWithServer({"reduce", a, "--json"}), 0) << err_;
  EXPECT_THAT(WithoutWhitespace(out_),
              StartsWith("{\"rows\":2,\"unknowns\":[\"x[0]\",\"x[1]\"],\"r\":[[2,1],[0,4]],"
                         "\"code\":null,\"nonfinite\":[],\"report\":{"));
}

TEST_F(FactorctlTest, Reduce_CsvNamesTheUnknowns) {
  ASSERT_TRUE(WriteFile(Path("d.csv"), "price,area\n1,0\n3,1\n5,2\n").ok());
  ASSERT_EQ(RunWithServer({"reduce", Path("d.csv"), "--y=price", "--intercept"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\n  intercept = 1 +- "));
  EXPECT_THAT(out_, HasSubstr("\n  area = 2 +- "));
}

TEST_F(FactorctlTest, Reduce_LargeFileGoesInPiecesAndIsWhole) {
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {70'000, 5}, /*seed=*/1);  // 2.7 MiB
  const std::string path = Write("A.npy", a);
  ASSERT_EQ(RunWithServer({"reduce", path, "--out_r=" + Path("R.npy")}), 0) << err_;
  EXPECT_EQ(fake_.received_chunks(), 2);
  ASSERT_EQ(RunWithServer({"qr", path, "--mode=r", "--out_r=" + Path("R1.npy")}), 0) << err_;
  EXPECT_EQ(ReadNpy(Path("R.npy"))->data, ReadNpy(Path("R1.npy"))->data);
}

TEST_F(FactorctlTest, Reduce_WritesXAndROfA) {
  const std::string a =
      Write("A.npy", MakeMatrices(v1::DTYPE_F64, {3, 3}, {2, 0, 2, 0, 4, 8, 0, 0, 3}));
  ASSERT_EQ(
      RunWithServer({"reduce", a, "--y=2", "--out=" + Path("x.npy"), "--out_r=" + Path("R.npy")}),
      0)
      << err_;
  EXPECT_THAT(ReadNpy(Path("x.npy"))->dims, ElementsAre(2));
  EXPECT_THAT(ValuesOf(*ReadNpy(Path("x.npy"))), ElementsAre(1, 2));
  EXPECT_THAT(ValuesOf(*ReadNpy(Path("R.npy"))), ElementsAre(2, 0, 0, 4));
}

TEST_F(FactorctlTest, Reduce_NonfiniteRowsAreNamed) {
  const std::string a = Write(
      "A.npy", MakeMatrices(v1::DTYPE_F64, {2, 1}, {1, std::numeric_limits<double>::quiet_NaN()}));
  ASSERT_EQ(RunWithServer({"reduce", a}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\nNONFINITE_INPUT\n  rows 0 to 1\n"));
}

TEST_F(FactorctlTest, Reduce_FilesThatDoNotFitAreNamed) {
  const std::string a = Write("A.npy", MakeMatrices(v1::DTYPE_F64, {1, 2}, {1, 2}));
  const std::string b = Write("B.npy", MakeMatrices(v1::DTYPE_F32, {1, 3}, {1, 2, 3}));
  EXPECT_EQ(RunWithServer({"reduce", a, b}), 1);
  EXPECT_THAT(err_, HasSubstr("B.npy: 3 columns of f32, the files before it have 2 of f64\n"));
}

TEST_F(FactorctlTest, Reduce_WrongFlags_AreUsage) {
  EXPECT_EQ(Run({"reduce"}), 2);
  EXPECT_THAT(err_, StartsWith("factorctl reduce: expected files"));
  EXPECT_EQ(Run({"reduce", "A.npy", "--out=x.npy"}), 2);
  EXPECT_THAT(err_, StartsWith("factorctl reduce: --out is for x, which needs --y"));
}

TEST_F(FactorctlTest, Solve_CsvFlagsWithTwoFiles_IsUsage) {
  EXPECT_EQ(Run({"solve", "A.npy", "b.npy", "--y=1"}), 2);
  EXPECT_THAT(err_, StartsWith("factorctl solve: --y, --x, --intercept and --rows need one CSV"));
}

TEST_F(FactorctlTest, Info_TextIsGolden) {
  ASSERT_EQ(RunWithServer({"info"}), 0) << err_;
  EXPECT_EQ(out_,
            "factord 0.0-fake, up 90 s\n"
            "backend cpu: a \"CPU\", plain loops, 1 threads, 1 lanes, healthy\n"
            "backend gpu: 2 x a GPU, CUDA 13.0, 0 threads, 4 lanes, healthy, driver 580.1\n"
            "  gpu0: a GPU, 5000 bytes, 2 lanes, NOT healthy\n"
            "routing: measured (a CPU, a GPU)\n"
            "largest message: 1000 bytes\n"
            "largest matrix: 2000 elements\n"
            "tensors in one request: 30\n"
            "memory: 0 of 4000 bytes in flight\n"
            "rpcs: Factorize, Solve\n");
}

TEST_F(FactorctlTest, Info_JsonIsGolden) {
  ASSERT_EQ(RunWithServer({"info", "--json"}), 0) << err_;
  EXPECT_EQ(WithoutWhitespace(out_),
            R"({"version":"0.0-fake","uptime_seconds":90,"backends":[{"backend":"cpu",)"
            R"("name":"a\"CPU\"","library":"plainloops","threads":1,"lanes":1,)"
            R"("healthy":true,"driver":"","devices":[]},{"backend":"gpu","name":"2xaGPU",)"
            R"("library":"CUDA13.0","threads":0,"lanes":4,"healthy":true,"driver":"580.1",)"
            R"("devices":[{"name":"gpu0","model":"aGPU","memory_bytes":5000,"lanes":2,)"
            R"("healthy":false}]}],"routing":"measured","routing_table":"aCPU,aGPU",)"
            R"("max_message_bytes":1000,"max_matrix_elements":2000,)"
            R"("max_tensors":30,"memory_budget_bytes":4000,"memory_in_flight_bytes":0,)"
            R"("rpcs":["Factorize","Solve"]})");
}

TEST_F(FactorctlTest, Explain_TextIsGolden) {
  ASSERT_EQ(RunWithServer({"explain", "--shape=100x64x64,8x8", "--dtype=c64"}), 0) << err_;
  EXPECT_EQ(out_,
            "100x64x64 c64: cpu, fake, bucket any, 3 dims, 1 jobs\n"
            "  predicted 2.5 ms (a default rate, not measured here), 1.5e+06 flops, 100 bytes in, "
            "200 bytes out\n"
            "  cpu 2 ms, gpu 3 ms (estimated), on a \"CPU\"\n"
            "  There is nothing else.\n"
            "8x8 c64: cpu, fake, bucket any, 2 dims, 1 jobs\n"
            "  predicted 2.5 ms (a default rate, not measured here), 1.5e+06 flops, 100 bytes in, "
            "200 bytes out\n"
            "  There is nothing else.\n");
}

TEST_F(FactorctlTest, Explain_JsonHasEveryShape) {
  ASSERT_EQ(RunWithServer({"explain", "--shape=3x3", "--json"}), 0) << err_;
  EXPECT_THAT(WithoutWhitespace(out_),
              StartsWith(R"({"explanations":[{"shape":"3x3","dtype":"f32","bucket":)"));
}

TEST_F(FactorctlTest, Explain_BadShape_IsUsage) {
  EXPECT_EQ(Run({"explain", "--shape=3x"}), 2);
  EXPECT_THAT(err_, StartsWith("factorctl explain: --shape is '3x', expected MxN or BATCHxMxN\n"));
}

TEST_F(FactorctlTest, Bench_PrintsItsTable) {
  ASSERT_EQ(RunWithServer({"bench", "--shape=2x3x3", "--requests=5", "--duration=inf",
                           "--warmup=0s", "--clients=1"}),
            0)
      << err_;
  EXPECT_THAT(out_, StartsWith("shapes     2x3x3 f32\nload       closed loop, 1 clients"));
  EXPECT_THAT(out_, HasSubstr("\nrequests   5, "));
}

TEST_F(FactorctlTest, Bench_NothingSucceeds_IsAnError) {
  google::rpc::Status failure;
  failure.set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  failure.set_message("full");
  fake_.FailNext(failure, 5);
  EXPECT_EQ(RunWithServer({"bench", "--shape=2x3x3", "--requests=5", "--duration=inf",
                           "--warmup=0s", "--clients=1"}),
            1);
  EXPECT_EQ(err_, "factorctl bench: UNAVAILABLE: full\n");
}

TEST_F(FactorctlTest, Bench_EndlessRun_IsUsage) {
  EXPECT_EQ(Run({"bench", "--duration=inf"}), 2);
  EXPECT_THAT(err_, HasSubstr("--duration must be finite, or --requests given"));
}

TEST(Progress, DrawsEachPercentageOnceAndCleansUp) {
  std::ostringstream err;
  {
    Progress progress(err, /*enabled=*/true);
    progress.Update(50, 100);
    progress.Update(50, 100);
  }
  EXPECT_EQ(err.str(), "\r[" + std::string(20, '#') + std::string(20, ' ') + "] 50%\r\x1b[K");
}

TEST(Progress, DisabledDrawsNothing) {
  std::ostringstream err;
  { Progress(err, /*enabled=*/false).Update(50, 100); }
  EXPECT_EQ(err.str(), "");
}

}  // namespace
}  // namespace factord::client
