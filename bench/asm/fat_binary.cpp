#include "asm/fat_binary.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace ladder {
namespace {

// As fatbinary of CUDA 12 and 13 writes them.
struct FatBinary {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  ///< behind the header
};
struct ImageHeader {
  std::uint16_t kind, unused0;
  std::uint32_t header_bytes;
  std::uint64_t bytes;             ///< behind the header
  std::uint32_t compressed_bytes;  ///< 0 if it is not compressed
  std::uint32_t unused1[2];
  std::uint32_t architecture;
  std::uint64_t unused2;
  std::uint64_t flags;
  std::uint64_t unused3;
  std::uint64_t uncompressed_bytes;
};
static_assert(sizeof(FatBinary) == 16 && sizeof(ImageHeader) == 64);
constexpr std::uint32_t kMagic = 0xBA55ED50;
constexpr std::uint16_t kPtx = 1, kCubin = 2;
constexpr std::uint64_t kLz4 = 0x2000, kZstd = 0x8000;

template <class F>
F* function_of(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW);
  void* const function = handle ? dlsym(handle, name) : nullptr;
  if (!function) {
    throw std::runtime_error(std::string(library) +
                             ", which unpacks what nvcc compressed, was not found; install it");
  }
  return reinterpret_cast<F*>(function);
}

/// By the libraries that apt and gcc are linked with.
std::string unpacked(std::string_view data, const ImageHeader& header) {
  if (!(header.flags & (kLz4 | kZstd))) return std::string(data);
  std::string to(header.uncompressed_bytes, '\0');
  std::size_t size = 0;
  if (header.flags & kZstd) {
    static auto* const unpack =
        function_of<std::size_t(void*, std::size_t, const void*, std::size_t)>("libzstd.so.1",
                                                                               "ZSTD_decompress");
    size = unpack(to.data(), to.size(), data.data(), data.size());
  } else {
    static auto* const unpack =
        function_of<int(const char*, char*, int, int)>("liblz4.so.1", "LZ4_decompress_safe");
    size = static_cast<std::size_t>(
        unpack(data.data(), to.data(), static_cast<int>(data.size()), static_cast<int>(to.size())));
  }
  if (size != to.size()) throw std::runtime_error("a fat binary could not be unpacked");
  return to;
}

template <class T>
bool read(std::string_view from, std::size_t at, T& to) {
  if (at > from.size() || from.size() - at < sizeof to) return false;
  std::memcpy(&to, from.data() + at, sizeof to);
  return true;
}

}  // namespace

std::vector<Image> images_in(std::string_view section) {
  std::vector<Image> images;
  FatBinary fat{};
  for (std::size_t at = 0; read(section, at, fat); at += 8) {  // between them are zeros
    if (fat.magic != kMagic) continue;
    std::size_t image = at + fat.header_bytes;
    const std::size_t end = image + fat.bytes;
    ImageHeader header{};
    while (image < end && read(section, image, header) && header.header_bytes > 0) {
      image += header.header_bytes;
      const std::size_t size = header.compressed_bytes ? header.compressed_bytes : header.bytes;
      if (header.kind == kPtx || header.kind == kCubin) {
        images.push_back({header.kind == kPtx, static_cast<int>(header.architecture),
                          unpacked(section.substr(image, size), header)});
      }
      image += header.bytes;
    }
    at = (end - 1) / 8 * 8;  // the loop goes on behind it
  }
  return images;
}

}  // namespace ladder
