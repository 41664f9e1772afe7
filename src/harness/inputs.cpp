// make_input, compiled once for each element type, not for each family and operation.
#include "harness/family.hpp"

#include <type_traits>

namespace ladder {

template <class T>
std::vector<T> make_input(const InputSet& set, std::size_t size, std::uint64_t seed, int input) {
  constexpr bool kIntegers = std::is_integral_v<T>;
  using Wide = std::conditional_t<kIntegers || std::is_same_v<T, double>, double, float>;
  const auto value = kIntegers && set.integer ? set.integer : set.value;
  std::vector<T> array(size);
  parallel_for(size, 1 << 18, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      array[i] = T(static_cast<Wide>(value(random_bits(seed, input, i), input)));
    }
  });
  return array;
}

template std::vector<float> make_input(const InputSet&, std::size_t, std::uint64_t, int);
template std::vector<half> make_input(const InputSet&, std::size_t, std::uint64_t, int);
template std::vector<bfloat16> make_input(const InputSet&, std::size_t, std::uint64_t, int);
template std::vector<tfloat32> make_input(const InputSet&, std::size_t, std::uint64_t, int);
template std::vector<float8_e4m3> make_input(const InputSet&, std::size_t, std::uint64_t, int);
template std::vector<double> make_input(const InputSet&, std::size_t, std::uint64_t, int);
template std::vector<std::int32_t> make_input(const InputSet&, std::size_t, std::uint64_t, int);
template std::vector<std::int64_t> make_input(const InputSet&, std::size_t, std::uint64_t, int);

}  // namespace ladder
