#include "server/batching/fair_queue.h"

namespace factord {

absl::Duration FairQueue::FinishOf(const Line& line) {
  const QueuedJob& first = *line.jobs.begin()->second;
  return first.account->time + first.cost;
}

void FairQueue::Reorder(Line& line) {
  FairClock::Account* account = line.jobs.begin()->second->account;
  order_.erase({line.finish, account->id});
  line.finish = FinishOf(line);
  order_.emplace(std::pair(line.finish, account->id), account);
}

void FairQueue::Add(QueuedJob* job) {
  if (job->urgent) {
    urgent_.emplace(std::pair(job->job->deadline, job->sequence), job);
    return;
  }
  Line& line = lines_[job->account];
  line.jobs.emplace(job->sequence, job);
  if (line.jobs.begin()->second == job) Reorder(line);
}

void FairQueue::Remove(QueuedJob* job) {
  if (job->urgent) {
    urgent_.erase({job->job->deadline, job->sequence});
    return;
  }
  const auto it = lines_.find(job->account);
  Line& line = it->second;
  const bool was_first = line.jobs.begin()->second == job;
  line.jobs.erase(job->sequence);
  if (line.jobs.empty()) {
    order_.erase({line.finish, job->account->id});
    lines_.erase(it);
  } else if (was_first) {
    Reorder(line);
  }
}

FairQueue::Line* FairQueue::NextLine() {
  while (!order_.empty()) {
    Line& line = lines_.find(order_.begin()->second)->second;
    if (FinishOf(line) == line.finish) return &line;
    Reorder(line);
  }
  return nullptr;
}

QueuedJob* FairQueue::First() {
  if (!urgent_.empty()) return urgent_.begin()->second;
  const Line* line = NextLine();
  return line != nullptr ? line->jobs.begin()->second : nullptr;
}

std::optional<absl::Duration> FairQueue::NextStart() {
  const Line* line = NextLine();
  if (line == nullptr) return std::nullopt;
  return line->jobs.begin()->second->account->time;
}

}  // namespace factord
