// A layer for one pixel pair: one text for C++, where V is a vector of lanes (lanes.h), and for
// CUDA, where V is a number. No standard header is included: NVRTC has none. V needs +, -, * and
// the functions every, root, fused, smaller, pick and V's real type, RealOf<V>::type.
//
//   a, b      the roots of both pixels' variances;
//   g         a b;
//   rho       the correlation of both pixels;
//   U, U+     g (1 - rho) and g (1 + rho), the deficits; U+ is named O, of the opposite pixel;
//   w, v      1 - rho and 1 + rho of the pre-activations;
//   F, F0     the covariance g - U of features, and of the input;
//   A         T + iota F: the tangent kernel, with the readout's part unless inner weights are
//             frozen;
//   K         the covariance behind the activation;
//   M         kappa_0 A_g + (outer + iota) K: what the branch adds to A;
//   N         what a merge adds to deficits: the squared distance of the parts' coordinates;
//   lambda    the share of the linear network in a leaky ReLU;
//   inner, outer, iota   1 or 0: whether inner and outer weights are trained, and whether A has F.
//
// docs/theory/deficits.md has the same symbols, and the derivations; docs/theory/activations.md
// those of ReLU.
#pragma once
#include "records.h"
#if defined(__CUDACC_RTC__)
#define FORMULA __device__ __forceinline__
#define HERE __device__
#define UNROLL _Pragma("unroll")
template <class V>
struct RealOf {
    using type = V;
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
#include "lanes.h"
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
#if defined(__CUDACC_RTC__)
// CUDA's instructions read constant memory at no cost. A constant of 64 bits does not fit into one.
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
    UNROLL
    for (int k = n - 4; k >= 0; k -= 2)
        sum = fused(sum, square, fused(every<V>(c[k + 1]), t, every<V>(c[k])));
    return sum;
}

// ReLU's dual activation. With a = min(w, v), w = 1 - rho and v = 1 + rho:
//   k0 = arccos(1 - a) / pi = psi0 sqrt(a);    kappa_0 = 1 - k0 for w < v, else k0;
//   k1 = kappa_1(1 - a) - (1 - a) = psi1 a sqrt(a);    less = 1 - kappa_1 = min(w, 1) - k1.
// psi0 = P / D and psi1 = R / D (p, r and d below) are quotients of polynomials in t = 1 - a with
// positive coefficients. No term cancels.
template <class V>
struct Angle {
    V w, v, s;  // s = sqrt(a) / D(t)
};

template <class V>
FORMULA Angle<V> angle_of(V w, V v)
{
    using R = typename RealOf<V>::type;
    const V a = smaller(w, v), t = every<V>(R(1)) - a;
    return {w, v, root_over(a, polynomial(t, t * t, quotients(R()).d))};
}

template <class V>
struct Dual {
    V k0, less;
};

template <class V>
FORMULA Dual<V> dual(const Angle<V> &at)
{
    using R = typename RealOf<V>::type;
    const V one = every<V>(R(1)), a = smaller(at.w, at.v), t = one - a, square = t * t;
    const auto &q = quotients(R());
    return {polynomial(t, square, q.p) * at.s,
            fused(-polynomial(t, square, q.r), at.s * a, smaller(at.w, one))};
}

// kappa_0 A, without rounding kappa_0 itself: near 1 it would be rounded alike in all layers.
template <class V>
FORMULA V times_slope(V k0, V w, V v, V A)
{
    const V part = k0 * A;
    return pick(w, v, A - part, part);
}

// The rows of a merge, from its first one on, which has the roots of the whole: (a + a_0) /
// sqrt(2), or n / a of NORM, and the coordinates of all parts but part 0 (`Operation` of
// operations.py).
constexpr int FACTOR_ROW = 1, COORDINATE_ROWS = 2;

// The numbers of a line of pixels in a table. Lines are doubled where lanes read right pixels from
// any pixel on, and `padding` numbers, at least the lanes, stand behind each; 0: single lines
// (`row_bytes` of signals.py).
FORMULA long long line_numbers(long long line_pixels, long long padding)
{
    return padding ? 2 * line_pixels + padding : line_pixels;
}

// Whether a call returns kernels of single pixel pairs; else sums over pixels.
FORMULA bool is_of_pixels(long long output)
{
    return output == PIXEL_1 || output == PIXELS;
}

// The sum of the terms t to end - 1, in parts of PART terms, and at each further level in parts of
// PART such sums: errors grow with the number of levels, DEPTH, as no sum has many summands. add(t,
// sum) adds term t.
constexpr long long PART = 32;

template <int DEPTH, class V, class Add>
FORMULA V sum_between(long long t, long long end, const Add &add)
{
    V total{};
    if constexpr (DEPTH == 0) {
        for (; t < end; t++) total = add(t, total);
    } else {
        long long step = PART;
        for (int level = 1; level < DEPTH; level++) step *= PART;
        for (; t < end; t += step)
            total = total + sum_between<DEPTH - 1, V>(t, t + step < end ? t + step : end, add);
    }
    return total;
}
template <class V, class Add>
FORMULA V sum_of(long long count, const Add &add)
{
    if (count <= PART) return sum_between<0, V>(0, count, add);
    return count <= PART * PART ? sum_between<1, V>(0, count, add)
                                : sum_between<3, V>(0, count, add);
}

// ---------------------------------------------------------------------- the steps of a layer

// A number of the job, in the working precision.
template <class V>
FORMULA V number(double value)
{
    return every<V>(typename RealOf<V>::type(value));
}

// What the steps carry of a pixel pair.
template <class V>
struct Numbers {
    V U, O, A;
};

// F, from the smaller of both deficits.
template <class V>
FORMULA V covariance(V g, V U, V O)
{
    return pick(U, O, g - U, O - g);
}

// A convolution of equal taps. `distance` has sums over the taps of their numbers' distances to the
// middle tap's: means of equal numbers are exact, while sums would round alike in all layers.
template <bool OPPOSITE, bool NTK, class V>
FORMULA Numbers<V> mean(const Numbers<V> &middle, const Numbers<V> &distance, V weight, V N)
{
    Numbers<V> result{fused(weight, distance.U, middle.U + N), V{}, V{}};
    if (OPPOSITE) result.O = fused(weight, distance.O, middle.O + N);
    if (NTK) result.A = fused(weight, distance.A, middle.A);
    return result;
}

// A bias, a part with the deficit 0: `twice` its product of both sides; `tangent` joins A.
template <bool OPPOSITE, bool NTK, class V>
FORMULA Numbers<V> with_bias(Numbers<V> sum, V twice, V tangent, V N)
{
    sum.U = sum.U + N;
    if (OPPOSITE) sum.O = sum.O + (twice + N);
    if (NTK) sum.A = sum.A + tangent;
    return sum;
}

// Of pre-activations; `inverse` is 1 / g.
template <bool OPPOSITE, class V>
FORMULA Angle<V> angle(V U, V O, V inverse)
{
    const V two = number<V>(2.0), w = smaller(U * inverse, two);
    return angle_of(w, OPPOSITE ? smaller(O * inverse, two) : two - w);
}

// The constants of a network's activation.
template <class V>
struct Activation {
    V lambda, inner_minus_iota, outer_plus_iota;
    bool leaks, adds_covariance;  // whether lambda and inner - iota are not 0
};

template <class V>
struct Activated {
    Numbers<V> branch;  // its A is M
    V K;
};

// From pre-activations to the branch. `A` is the tangent kernel before (inner - iota) times the
// covariance of pre-activations joins it.
template <bool OPPOSITE, bool NTK, class V>
FORMULA Activated<V> activated(const Activation<V> &constants, const Angle<V> &at, V g, V A)
{
    const V w = at.w, v = at.v;
    const Dual<V> relu = dual(at);
    V less = relu.less, more = number<V>(2.0) - less;
    if (constants.leaks) {
        less = fused(constants.lambda, w - less, less);
        more = fused(constants.lambda, v - more, more);
    }
    const V U = g * less, K = g - U;
    Activated<V> result{{U, V{}, V{}}, K};
    if (OPPOSITE) result.branch.O = g * more;
    if (NTK) {
        const V rho = pick(w, v, number<V>(1.0) - w, v - number<V>(1.0));
        if (constants.adds_covariance) A = fused(constants.inner_minus_iota, g * rho, A);
        V M = times_slope(relu.k0, w, v, A);
        if (constants.leaks) M = fused(constants.lambda, A - M, M);
        result.branch.A = fused(constants.outer_plus_iota, K, M);
    }
    return result;
}

// The weighted sum of the features that pass a layer and of its branch. A mean goes from the
// heavier one on: it is exact where both are equal. N is left out for numbers that are no deficits.
template <class V, class... Deficit>
FORMULA V merged(Form form, V feature_weight, V branch_weight, V features, V branch, Deficit... N)
{
    switch (form) {
    case BRANCH_ALONE:
        return ((branch_weight * branch) + ... + N);
    case SUM:
        return fused(branch_weight, branch, ((feature_weight * features) + ... + N));
    case MEAN_FROM_FEATURES:
        return fused(branch_weight, branch - features, (features + ... + N));
    case MEAN_FROM_BRANCH:
        break;
    }
    return fused(feature_weight, features - branch, (branch + ... + N));
}

// From pre-activations to the next layer's: `passing` passes the layer, `sum` is the branch's over
// both filters' taps.
template <bool NTK, class V>
FORMULA Numbers<V> joined(V feature_weight, V branch_weight, const Numbers<V> &passing,
                          const Numbers<V> &sum, V N)
{
    Numbers<V> next{fused(branch_weight, sum.U, fused(feature_weight, passing.U, N)), V{}, V{}};
    if (NTK) next.A = fused(branch_weight, sum.A, feature_weight * passing.A);
    return next;
}

// Which of two signals of one length comes first: x at -1, z at 1, and 0 if they are equal. Bits do
// not depend on which of them is given first. Keys decide, and where they are equal the numbers of
// the tables.
template <class R>
FORMULA int order_of(long long x_key, const R *x, long long z_key, const R *z, long long numbers)
{
    if (x_key != z_key) return x_key < z_key ? -1 : 1;
    if (x == z) return 0;
    for (long long k = 0; k < numbers; k++)
        if (x[k] != z[k]) return x[k] < z[k] ? -1 : 1;
    return 0;
}
