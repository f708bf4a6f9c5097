// Ours.
#include <map>

#include "bench/gpu/implementation.h"
#include "kernels/qr.h"

namespace factord::bench {
namespace {

kernels::DeviceLimits ThisDevice() {
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, 0));
  return {properties.multiProcessorCount, properties.sharedMemPerBlockOptin};
}

kernels::Problem ProblemOf(const Case& c) {
  kernels::Problem problem;
  problem.m = c.m;
  problem.n = c.n;
  problem.column_major = c.operation != Operation::kR;
  switch (c.operation) {
    case Operation::kGeqrf:
      problem.reflectors = true;
      break;
    case Operation::kOrgqr:
      problem.op = kernels::Op::kFormQ;
      problem.q = kernels::QMode::kReduced;
      break;
    case Operation::kQr:
      problem.q = kernels::QMode::kReduced;
      problem.r = true;
      break;
    case Operation::kR:
      problem.r = true;
      break;
  }
  return problem;
}

template <class T>
class RunQrImplementation : public Implementation<T> {
 public:
  explicit RunQrImplementation(const Case& c)
      : case_(c),
        plan_(kernels::PlanQr(ProblemOf(c), c.dtype, ThisDevice())),
        workspace_(kernels::WorkspaceBytes(plan_, c.m, c.n, 0, c.batch)),
        status_(static_cast<std::size_t>(c.batch)) {}

  std::string name() const override { return "factord"; }

  void Prepare(Operands<T>& operands) override {
    operands.PoisonOutputs();
    RunOf(operands);
  }
  void Run(Operands<T>& operands) override { Enqueue(operands, nullptr); }
  bool ByRows() const override { return case_.operation == Operation::kR; }

 protected:
  void Enqueue(Operands<T>& operands, cudaStream_t stream) {
    kernels::Batch<T> batch;
    batch.runs = RunOf(operands);
    batch.run_count = 1;
    batch.count = case_.batch;
    batch.m = case_.m;
    batch.n = case_.n;
    batch.status = status_.data();
    Check(kernels::RunQr(plan_, batch, workspace_.data(), stream));
  }

 private:
  // The operands' description, in device memory; written there the first time.
  const kernels::Run<T>* RunOf(Operands<T>& operands) {
    const auto [place, is_new] = runs_.try_emplace(operands.in.data(), 1);
    if (!is_new) return place->second.data();
    kernels::Run<T> run;
    run.m = case_.m;
    run.n = case_.n;
    run.a = operands.in.data();
    run.tau_in = operands.tau_in.data();
    run.r = operands.r.data();
    (case_.operation == Operation::kGeqrf ? run.reflectors : run.q) = operands.out.data();
    run.tau = operands.tau.data();
    Check(cudaMemcpy(place->second.data(), &run, sizeof(run), cudaMemcpyHostToDevice));
    return place->second.data();
  }

  const Case case_;
  const kernels::Plan plan_;
  DeviceArray<std::byte> workspace_;
  DeviceArray<std::uint32_t> status_;
  std::map<const T*, DeviceArray<kernels::Run<T>>> runs_;
};

template <class T>
class GraphImplementation final : public RunQrImplementation<T> {
 public:
  explicit GraphImplementation(const Case& c) : RunQrImplementation<T>(c) {
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~GraphImplementation() override {
    for (const auto& [operands, graph] : graphs_) Check(cudaGraphExecDestroy(graph));
    Check(cudaStreamDestroy(stream_));
  }

  std::string name() const override { return "factord graph"; }

  void Prepare(Operands<T>& operands) override {
    RunQrImplementation<T>::Prepare(operands);
    const auto [place, is_new] = graphs_.try_emplace(operands.in.data());
    if (!is_new) return;
    Check(cudaDeviceSynchronize());
    cudaGraph_t graph;
    Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    this->Enqueue(operands, stream_);
    Check(cudaStreamEndCapture(stream_, &graph));
    Check(cudaGraphInstantiate(&place->second, graph, 0));
    Check(cudaGraphDestroy(graph));
  }
  void Run(Operands<T>& operands) override {
    Check(cudaGraphLaunch(graphs_.at(operands.in.data()), nullptr));
  }

 private:
  cudaStream_t stream_;
  std::map<const T*, cudaGraphExec_t> graphs_;
};

}  // namespace

template <class T>
std::unique_ptr<Implementation<T>> Factord(const Case& c) {
  return std::make_unique<RunQrImplementation<T>>(c);
}
template <class T>
std::unique_ptr<Implementation<T>> FactordGraph(const Case& c) {
  return std::make_unique<GraphImplementation<T>>(c);
}

template std::unique_ptr<Implementation<float>> Factord(const Case&);
template std::unique_ptr<Implementation<double>> Factord(const Case&);
template std::unique_ptr<Implementation<float>> FactordGraph(const Case&);
template std::unique_ptr<Implementation<double>> FactordGraph(const Case&);

}  // namespace factord::bench
