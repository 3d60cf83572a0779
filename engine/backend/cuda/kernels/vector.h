// Vectors of consecutive elements, moved between memory and f32 registers by accesses of up to 16 bytes.
#pragma once
#include "engine/backend/cuda/kernels/simt.h"

namespace mbench::cuda {

template <int V>
struct Floats {
  float v[V];
};

// V stored elements, aligned for one access of at most 16 bytes.
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T v[V];
};

// Elements of a vector for an op on these storage types: the narrowest type fills 16 bytes.
template <class... T>
constexpr int width_of() {
  return (... || (sizeof(T) == 2)) ? 8 : 4;
}

template <int V, class T>
__device__ inline Pack<T, V> load_pack(const T* from) {
  need_aligned<alignof(Pack<T, V>)>(from);
  return *reinterpret_cast<const Pack<T, V>*>(from);
}

template <class T, int V>
__device__ inline void store_pack(T* to, const Pack<T, V>& pack) {
  need_aligned<alignof(Pack<T, V>)>(to);
  if constexpr (V == 1)
    *to = pack.v[0];
  else
    store_bytes<sizeof pack>(to, &pack);
}

template <class T, int V>
__device__ inline Floats<V> floats_of(const Pack<T, V>& pack) {
  Floats<V> x;
#pragma unroll
  for (int i = 0; i < V; ++i) x.v[i] = to_f32(pack.v[i]);
  return x;
}

template <int V, class T>
__device__ inline Floats<V> load(const T* from) {
  return floats_of(load_pack<V>(from));
}

template <int V, class T>
__device__ inline void store(T* to, const Floats<V>& x) {
  Pack<T, V> pack;
#pragma unroll
  for (int i = 0; i < V; ++i) pack.v[i] = from_f32<T>(x.v[i]);
  store_pack(to, pack);
}

template <int V>
__device__ inline Floats<V> filled(float value) {
  Floats<V> x;
#pragma unroll
  for (int i = 0; i < V; ++i) x.v[i] = value;
  return x;
}

// Whether vectors of V elements may be accessed at each of the addresses. Null pointers are allowed.
template <int V, class... T>
bool aligned(const T*... pointer) {
  return (... && (reinterpret_cast<std::uintptr_t>(pointer) % alignof(Pack<T, V>) == 0));
}

}  // namespace mbench::cuda
