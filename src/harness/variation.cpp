#include "harness/variation.hpp"

#include "harness/place.hpp"

#include <algorithm>
#include <numeric>

namespace ladder {
namespace {

constexpr std::size_t kValues = 1024;  // that an array's parts are made of

bool varies(const Array& array) {
  return array.role == Role::input && !array.is_tied && array.addresses_of.empty() &&
         array.generator.kind == Generator::Kind::input_set && !array.generator.sorted;
}

Place place_of(const Buffer& buffer, std::size_t element_bytes = 1) {
  return {.data = static_cast<unsigned char*>(buffer.data()),
          .bytes = buffer.bytes(),
          .element_bytes = static_cast<std::uint32_t>(element_bytes)};
}

}  // namespace

WorkloadVariation::WorkloadVariation(Workload& workload, Device& device, std::uint64_t seed,
                                     std::size_t contestants)
    : workload_(workload) {
  const int devices = workload.devices();
  for (int i = 0; i < devices; ++i) {
    OnDevice& on = on_devices_.emplace_back(OnDevice{.device = &device.peer(i)});
    std::vector<Place> places;
    const auto copy_of = [&](const void* data, std::size_t bytes) {
      Buffer& buffer = on.buffers.emplace_back(*on.device, bytes);
      on.device->upload(buffer.data(), data, bytes);
      return static_cast<unsigned char*>(buffer.data());
    };
    for (std::size_t a = 0; a < workload.arrays().size(); ++a) {
      const Array& array = workload.arrays()[a];
      const Buffer& buffer = workload.buffers()[a];
      if (&buffer.device() != on.device || buffer.bytes() == 0) continue;
      if (array.role == Role::output) places.push_back(place_of(buffer));
      if (!varies(array)) continue;
      Array some = array;
      some.size = kValues;
      std::vector<std::byte> values(bytes_of(array.dtype, kValues));
      make_input(some, values.data(), workload.input_set(), RandomBits(seed, ~a));
      Place& place = places.emplace_back(
          place_of(buffer, std::max<std::size_t>(bytes_of(array.dtype, std::size_t{1}), 1)));
      place.values = copy_of(values.data(), values.size());
      place.values_bytes = values.size();
      const Place::Before none[Place::kParts]{};
      place.before = reinterpret_cast<Place::Before*>(copy_of(none, sizeof none));
    }
    if (!workload.workspaces().empty()) {
      places.push_back(place_of(workload.workspaces()[static_cast<std::size_t>(i)]));
    }
    on.count = places.size();
    if (places.empty()) continue;
    on.places.emplace(*on.device, places.size() * sizeof(Place));
    on.device->upload(on.places->data(), places.data(), on.places->bytes());
  }

  double bytes = 0;
  for (const Workload::Result& result : workload.results()) {
    bytes += static_cast<double>(result.written->bytes());
  }
  const double most = static_cast<double>(device.free_memory()) / 2;
  for (std::size_t i = 0; i < contestants && static_cast<double>(i + 1) * bytes <= most; ++i) {
    std::vector<Buffer>& kept = kept_.emplace_back();
    for (const Workload::Result& result : workload.results()) {
      kept.emplace_back(result.written->device(), result.written->bytes());
    }
  }
}

void WorkloadVariation::vary(std::uint64_t number) {
  for (const OnDevice& on : on_devices_) {
    if (on.count == 0) continue;
    on.device->enqueue_vary(static_cast<const Place*>(on.places->data()), on.count, number);
  }
  for (const Workload::Result& result : workload_.results()) {
    if (!result.before) continue;
    result.written->device().enqueue_copy(result.written->data(), result.before->data(),
                                          result.written->bytes());
  }
}

void WorkloadVariation::keep(std::size_t contestant, std::uint64_t number) {
  number_ = number;
  for (std::size_t i = 0; i < kept_[contestant].size(); ++i) {
    const Buffer& written = *workload_.results()[i].written;
    written.device().enqueue_copy(kept_[contestant][i].data(), written.data(), written.bytes());
  }
}

std::uint64_t WorkloadVariation::checksum() const {
  std::uint64_t sum = 0;
  const auto add = [&](const Buffer& buffer) {
    sum = random_bits(sum, 0, buffer.device().checksum(buffer.data(), buffer.bytes()));
  };
  for (const Workload::Result& result : workload_.results()) add(*result.written);
  for (const Buffer& workspace : workload_.workspaces()) add(workspace);
  return sum;
}

void WorkloadVariation::restore() {
  vary(0);
  for (const OnDevice& on : on_devices_) on.device->wait();
}

bool WorkloadVariation::go_back() {
  if (!number_) return false;
  vary(*number_);
  for (const OnDevice& on : on_devices_) on.device->wait();
  workload_.answer_again();
  return true;
}

CheckResult WorkloadVariation::judge_kept(std::size_t contestant) {
  for (std::size_t i = 0; i < kept_[contestant].size(); ++i) {
    const Buffer& written = *workload_.results()[i].written;
    written.device().copy(written.data(), kept_[contestant][i].data(), written.bytes());
  }
  return judge(workload_);
}

}  // namespace ladder
