// Formulas of one pixel pair: one text for C++, where V is a vector of lanes (cpu/lanes.h), and for CUDA, where V is a
// number. No standard header is included: NVRTC has none. V needs +, -, * and the functions every, root, fused,
// smaller, pick and V's real type, RealOf<V>::type.
#pragma once
#if defined(__CUDACC_RTC__)
#define FORMULA __device__ __forceinline__
#define HERE __device__
#define UNROLL _Pragma("unroll")
template <class V> struct RealOf { typedef V type; };
template <class V> FORMULA V every(V x) { return x; }
// By one step of third order, from a seed of 20 bits: IEEE's root takes twice the instructions.
FORMULA double root(double x)
{
#if defined(__CUDA_ARCH__)
    double seed;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(seed) : "d"(x));
    if (!(x > 0)) seed = 0;
#else
    const double seed = x > 0 ? 1 / sqrt(x) : 0;
#endif
    const double y = x * seed, error = fma(-y, seed, 1.0);
    return fma(y * error, fma(error, 0.375, 0.5), y);
}
FORMULA float root(float x) { return sqrtf(x); }
FORMULA double fused(double a, double b, double c) { return fma(a, b, c); }
FORMULA float fused(float a, float b, float c) { return fmaf(a, b, c); }
template <class V> FORMULA V smaller(V a, V b) { return a < b ? a : b; }
template <class V> FORMULA V pick(V a, V b, V x, V y) { return a < b ? x : y; }
#else
#include "cpu/lanes.h"
#endif
#include "coefficients.h"  // Poly<double>, Poly<float>: p() and r() return a struct with the array c
#if defined(__CUDACC_RTC__)  // instructions read constant memory at no cost, but have no room for 64 bits
__constant__ Poly<double>::P P64 = Poly<double>::p();
__constant__ Poly<double>::R R64 = Poly<double>::r();
FORMULA const Poly<double>::P &p_of(double) { return P64; }
FORMULA const Poly<double>::R &r_of(double) { return R64; }
FORMULA Poly<float>::P p_of(float) { return Poly<float>::p(); }
FORMULA Poly<float>::R r_of(float) { return Poly<float>::r(); }
#else
template <class R> FORMULA typename Poly<R>::P p_of(R) { return Poly<R>::p(); }
template <class R> FORMULA typename Poly<R>::R r_of(R) { return Poly<R>::r(); }
#endif

// The polynomial with coefficients c, constant first: Horner's scheme in a^4, four chains side by side.
template <class V, class C> FORMULA V polynomial(V a, const C &poly)
{
    constexpr int n = int(sizeof poly.c / sizeof poly.c[0]);
    const V b = a * a, d = b * b;
    V part[4];
    UNROLL for (int r = 0; r < 4; r++) {
        const int last = (n - 1 - r) / 4 * 4 + r;
        part[r] = every<V>(poly.c[last]);
        UNROLL for (int k = last - 4; k >= 0; k -= 4) part[r] = fused(part[r], d, every<V>(poly.c[k]));
    }
    return fused(fused(part[3], a, part[2]), b, fused(part[1], a, part[0]));
}

// ReLU's dual activation. With a = min(w, v), w = 1 - rho and v = 1 + rho:
//   k0 = arccos(1 - a) / pi = p(a) sqrt(a),    kappa_0 = 1 - k0 for w < v, else k0
//   k1 = kappa_1(1 - a) - (1 - a) = r(a) a sqrt(a),    less = 1 - kappa_1 = (w < v ? w : 1) - k1
// No term cancels.
template <class V> struct Dual { V k0, less; };

template <class V> FORMULA Dual<V> dual(V w, V v, V s)
{
    typedef typename RealOf<V>::type R;
    const V a = smaller(w, v);
    const V k1 = polynomial(a, r_of(R())) * (s * a);
    const Dual<V> result = {polynomial(a, p_of(R())) * s, pick(w, v, w, every<V>(R(1))) - k1};
    return result;
}

template <class V> FORMULA Dual<V> dual(V w, V v) { return dual(w, v, root(smaller(w, v))); }

// kappa_0 A, without rounding kappa_0 itself: near 1 it would be rounded alike in all layers.
template <class V> FORMULA V times_slope(V k0, V w, V v, V A)
{
    const V part = k0 * A;
    return pick(w, v, A - part, part);
}

// rho of the pre-activations.
template <class V> FORMULA V correlation(V w, V v)
{
    typedef typename RealOf<V>::type R;
    const V one = every<V>(R(1));
    return pick(w, v, one - w, v - one);
}
