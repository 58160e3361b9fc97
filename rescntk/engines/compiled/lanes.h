// Vectors of floating-point numbers, called lanes, as wide as one register of the instruction set
// that this file is compiled for.
//
// +, - and * are the operators of GCC and Clang. All other functions are intrinsics, because GCC
// compiles loops over lanes to scalar code. The build forbids contraction: all compilers round
// a*b + c only once where the text says `fused`, and nowhere else. SSE has no fused product, and
// rounds twice.
#pragma once
#define FORMULA static inline __attribute__((always_inline))
#define DEVICE  // what a member function needs: __device__ in CUDA
#define UNROLL _Pragma("GCC unroll 32")
#if defined(__AVX512F__)
#include <immintrin.h>
#define VECTOR_BYTES 64
#define INTRINSIC(name, type) _mm512_##name##_##type
#define ROOT(type, a) INTRINSIC(maskz_sqrt, type)(-1, a)
#define FUSED(type, a, b, c) INTRINSIC(fmadd, type)(a, b, c)
#define SMALLER(type, a, b) INTRINSIC(maskz_min, type)(-1, a, b)
#define PICK(type, a, b, x, y)                                                                     \
    INTRINSIC(mask_blend, type)(_mm512_cmp_##type##_mask(a, b, _CMP_LT_OQ), y, x)
#define ANY_LESS(type, a, b) (_mm512_cmp_##type##_mask(a, b, _CMP_LT_OQ) != 0)
using D = __m512d;
using S = __m512;
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define VECTOR_BYTES 32
#define INTRINSIC(name, type) _mm256_##name##_##type
#define ROOT(type, a) INTRINSIC(sqrt, type)(a)
#define FUSED(type, a, b, c) INTRINSIC(fmadd, type)(a, b, c)
#define SMALLER(type, a, b) INTRINSIC(min, type)(a, b)
#define PICK(type, a, b, x, y) INTRINSIC(blendv, type)(y, x, INTRINSIC(cmp, type)(a, b, _CMP_LT_OQ))
#define ANY_LESS(type, a, b) INTRINSIC(movemask, type)(INTRINSIC(cmp, type)(a, b, _CMP_LT_OQ)) != 0
using D = __m256d;
using S = __m256;
#elif defined(__SSE4_1__)
#include <smmintrin.h>
#define VECTOR_BYTES 16
#define INTRINSIC(name, type) _mm_##name##_##type
#define ROOT(type, a) INTRINSIC(sqrt, type)(a)
#define FUSED(type, a, b, c) INTRINSIC(add, type)(INTRINSIC(mul, type)(a, b), c)
#define SMALLER(type, a, b) INTRINSIC(min, type)(a, b)
#define PICK(type, a, b, x, y) INTRINSIC(blendv, type)(y, x, INTRINSIC(cmplt, type)(a, b))
#define ANY_LESS(type, a, b) INTRINSIC(movemask, type)(INTRINSIC(cmplt, type)(a, b)) != 0
using D = __m128d;
using S = __m128;
#elif defined(__aarch64__)
#include <arm_neon.h>
#define VECTOR_BYTES 16
#define pd f64  // the names of the intrinsics
#define ps f32
#define JOIN(name, type) name##_##type
#define INTRINSIC(name, type) JOIN(name, type)
#define ROOT(type, a) INTRINSIC(vsqrtq, type)(a)
#define FUSED(type, a, b, c) INTRINSIC(vfmaq, type)(c, a, b)
#define SMALLER(type, a, b) INTRINSIC(vminq, type)(a, b)
#define PICK(type, a, b, x, y) INTRINSIC(vbslq, type)(INTRINSIC(vcltq, type)(a, b), x, y)
#define ANY_LESS(type, a, b) vmaxvq_u32((uint32x4_t)INTRINSIC(vcltq, type)(a, b)) != 0
using D = float64x2_t;
using S = float32x4_t;
#else
#error "no vectors are known for this target"
#endif
using F64 = double __attribute__((vector_size(VECTOR_BYTES)));
using F32 = float __attribute__((vector_size(VECTOR_BYTES)));

// The largest number of lanes of a vector. A line of a table that is stored twice is followed by
// this many numbers, and the number of right signals of a task is a multiple of it (engine.py).
constexpr int MOST_LANES = 16;

template <class V>
struct RealOf;
template <>
struct RealOf<F64> {
    using type = double;
};
template <>
struct RealOf<F32> {
    using type = float;
};
template <class R>
struct Lanes;
template <>
struct Lanes<double> {
    using V = F64;
    static constexpr int LANES = VECTOR_BYTES / 8;
};
template <>
struct Lanes<float> {
    using V = F32;
    static constexpr int LANES = VECTOR_BYTES / 4;
};
static_assert(Lanes<float>::LANES <= MOST_LANES, "vectors read beyond the ends of tables");

// A vector of numbers from an array that need not be aligned.
template <class R>
FORMULA typename Lanes<R>::V loaded(const R *from)
{
    typename Lanes<R>::V vector;
    __builtin_memcpy(&vector, from, sizeof(vector));
    return vector;
}
template <class V>
FORMULA V broadcast(typename RealOf<V>::type x)
{
    return V{} + x;
}
FORMULA F64 root(F64 a)
{
    return (F64)ROOT(pd, (D)a);
}
FORMULA F32 root(F32 a)
{
    return (F32)ROOT(ps, (S)a);
}
FORMULA F64 fused(F64 a, F64 b, F64 c)
{
    return (F64)FUSED(pd, (D)a, (D)b, (D)c);
}
FORMULA F32 fused(F32 a, F32 b, F32 c)
{
    return (F32)FUSED(ps, (S)a, (S)b, (S)c);
}
FORMULA F64 smaller(F64 a, F64 b)
{
    return (F64)SMALLER(pd, (D)a, (D)b);
}
FORMULA F32 smaller(F32 a, F32 b)
{
    return (F32)SMALLER(ps, (S)a, (S)b);
}
FORMULA bool any_less(F64 a, F64 b)
{
    return ANY_LESS(pd, (D)a, (D)b);
}
FORMULA bool any_less(F32 a, F32 b)
{
    return ANY_LESS(ps, (S)a, (S)b);
}
// x where a < b, y elsewhere.
FORMULA F64 pick(F64 a, F64 b, F64 x, F64 y)
{
    return (F64)PICK(pd, (D)a, (D)b, (D)x, (D)y);
}
FORMULA F32 pick(F32 a, F32 b, F32 x, F32 y)
{
    return (F32)PICK(ps, (S)a, (S)b, (S)x, (S)y);
}
