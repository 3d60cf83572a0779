// Whether this program is instrumented by AddressSanitizer. Its shadow memory and allocator are not the engine's, and under it
// everything takes several times as long. So bounds on addresses, memory and time say nothing there.
#pragma once

#if defined(__SANITIZE_ADDRESS__)  // GCC
#define MBENCH_UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)  // Clang
#define MBENCH_UNDER_ASAN 1
#endif
#endif

namespace mbench::test {
#ifdef MBENCH_UNDER_ASAN
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
}  // namespace mbench::test
