// Formulas of one pixel pair: one text for C++, where V is a vector of lanes (cpu/lanes.h), and for
// CUDA, where V is a number. No standard header is included: NVRTC has none. V needs +, -, * and
// the functions every, root, fused, smaller, pick and V's real type, RealOf<V>::type.
#pragma once
#if defined(__CUDACC_RTC__)
#define FORMULA __device__ __forceinline__
#define HERE __device__
#define UNROLL _Pragma("unroll")
template <class V>
struct RealOf {
    typedef V type;
};
template <class V>
FORMULA V every(V x)
{
    return x;
}
FORMULA double fused(double a, double b, double c)
{
    return fma(a, b, c);
}
FORMULA float fused(float a, float b, float c)
{
    return fmaf(a, b, c);
}
// sqrt(a) / d by way of an approximate 1 / sqrt(x): IEEE's root takes twice the instructions. In
// double one step of third order follows.
#if defined(__CUDA_ARCH__)
FORMULA double seed_of(double x)
{
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}
FORMULA float seed_of(float x)
{
    return rsqrtf(x);
}
#else
template <class V>
FORMULA V seed_of(V x)
{
    return 1 / sqrt(x);
}
#endif
FORMULA double root_over(double a, double d)
{
    const double x = a * d * d, seed = x > 0 ? seed_of(x) : 0, y = a * seed,
                 error = fma(-x * seed, seed, 1.0);
    return fma(y * error, fma(error, 0.375, 0.5), y);
}
FORMULA float root_over(float a, float d)
{
    const float x = a * d * d;
    return x > 0 ? a * seed_of(x) : 0;
}
template <class V>
FORMULA V smaller(V a, V b)
{
    return a < b ? a : b;
}
template <class V>
FORMULA V pick(V a, V b, V x, V y)
{
    return a < b ? x : y;
}
#else
#include "../cpu/lanes.h"
template <class V>
FORMULA V root_over(V a, V d)
{
    return root(a) / d;
}
#endif
#include "coefficients.h"
template <class R>
FORMULA Quotients<R> quotients(R)
{
    return Quotients<R>::numbers();
}
#if defined(__CUDACC_RTC__)  // instructions read constant memory at no cost, but have no room for
                             // 64 bits
__constant__ Quotients<double> OF_DOUBLE = Quotients<double>::numbers();
FORMULA const Quotients<double> &quotients(double)
{
    return OF_DOUBLE;
}
#endif

// The polynomial with an even number of coefficients c, constant first: Horner's scheme in t^2, of
// pairs.
template <class V, class R, int n>
FORMULA V polynomial(V t, V square, const R (&c)[n])
{
    V sum = fused(every<V>(c[n - 1]), t, every<V>(c[n - 2]));
    UNROLL for (int k = n - 4; k >= 0; k -= 2) sum =
        fused(sum, square, fused(every<V>(c[k + 1]), t, every<V>(c[k])));
    return sum;
}

// ReLU's dual activation. With a = min(w, v), w = 1 - rho and v = 1 + rho:
//   k0 = arccos(1 - a) / pi = p sqrt(a),    kappa_0 = 1 - k0 for w < v, else k0
//   k1 = kappa_1(1 - a) - (1 - a) = r a sqrt(a),    less = 1 - kappa_1 = (w < v ? w : 1) - k1
// p and r are quotients of polynomials in t = 1 - a with positive coefficients and one denominator.
// No term cancels.
template <class V>
struct Dual {
    V k0, less;
};

template <class V>
FORMULA Dual<V> dual(V w, V v)
{
    typedef typename RealOf<V>::type R;
    const V one = every<V>(R(1)), a = smaller(w, v), t = one - a, square = t * t;
    const auto &of = quotients(R());
    const V s = root_over(a, polynomial(t, square, of.d));
    return {polynomial(t, square, of.p) * s,
            pick(w, v, w, one) - polynomial(t, square, of.r) * (s * a)};
}

// kappa_0 A, without rounding kappa_0 itself: near 1 it would be rounded alike in all layers.
template <class V>
FORMULA V times_slope(V k0, V w, V v, V A)
{
    const V part = k0 * A;
    return pick(w, v, A - part, part);
}

// rho of the pre-activations.
template <class V>
FORMULA V correlation(V w, V v)
{
    typedef typename RealOf<V>::type R;
    const V one = every<V>(R(1));
    return pick(w, v, one - w, v - one);
}

// Whether signal z is left of signal x, of one length: bits do not depend on which of them is given
// first. Keys decide, and where they are equal the numbers of the tables.
template <class R>
FORMULA bool comes_before(long long z_key, const R *z, long long x_key, const R *x,
                          long long numbers)
{
    if (z_key != x_key || x == z) return z_key < x_key;
    for (long long k = 0; k < numbers; k++)
        if (x[k] != z[k]) return z[k] < x[k];
    return false;
}
