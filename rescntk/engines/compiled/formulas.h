// The steps of a layer for one pixel pair.
//
// C++ and CUDA compile the same text. In C++ the type V is a vector of lanes (lanes.h), in CUDA a
// number. No standard header is included, because NVRTC has none. V needs +, -, *, the functions
// broadcast, fused, smaller, pick and root_over, and its real type, RealOf<V>::type. The symbols
// are
//
//   a, b      the standard deviations of both pixels;
//   g         a b;
//   rho       the correlation of both pixels;
//   U, U+     g (1 - rho) and g (1 + rho), the deficits; U+ is `U_plus` in the code;
//   w, v      1 - rho and 1 + rho of the pre-activations;
//   F, F0     the covariance g - U of the features, and that of the input;
//   A         T + iota F: the tangent kernel, which includes F of the trained readout (iota = 1)
//             unless the inner weights are not trained (iota = 0);
//   K         the covariance after the activation;
//   M         kappa_0 A_g + (outer + iota) K, which the branch adds to A;
//   N         what a merge adds to deficits, from the squared distance of the parts' coordinates;
//   lambda    the share of the linear network in a leaky ReLU;
//   inner, outer, iota   1 or 0: whether inner weights are trained, whether outer weights are
//             trained, and whether A includes F.
//
// docs/theory/deficits.md derives the formulas of the deficits and of N, docs/theory/recursion.md
// those of A and M, and docs/theory/activations.md the dual activation of ReLU.
#pragma once
#include "records.h"
#if defined(__CUDACC_RTC__)
#define FORMULA __device__ __forceinline__
#define DEVICE __device__
#define UNROLL _Pragma("unroll")
template <class V>
struct RealOf {
    using type = V;
};
template <class V>
FORMULA V broadcast(V x)
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
// sqrt(a) / d, computed from an approximation of 1 / sqrt(x), because an exactly rounded square
// root takes twice as many instructions. In double, one iteration of third order follows.
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
// Instructions of CUDA can read an operand from constant memory at no cost. A 64-bit constant would
// not fit into the instruction itself.
__constant__ Quotients<double> DOUBLE_QUOTIENTS = Quotients<double>::numbers();
FORMULA const Quotients<double> &quotients(double)
{
    return DOUBLE_QUOTIENTS;
}
#endif

// The value of a polynomial in t, by Horner's scheme in t^2 with pairs of coefficients. Their
// number is even, and the coefficient of t^0 is the first one.
template <class V, class R, int n>
FORMULA V polynomial(V t, V square, const R (&c)[n])
{
    V sum = fused(broadcast<V>(c[n - 1]), t, broadcast<V>(c[n - 2]));
    UNROLL
    for (int k = n - 4; k >= 0; k -= 2)
        sum = fused(sum, square, fused(broadcast<V>(c[k + 1]), t, broadcast<V>(c[k])));
    return sum;
}

// The dual activation of ReLU. Let a = min(w, v) with w = 1 - rho and v = 1 + rho. Then
//   k0 = arccos(1 - a) / pi = psi0 sqrt(a);    kappa_0 = 1 - k0 for w < v, else k0;
//   k1 = kappa_1(1 - a) - (1 - a) = psi1 a sqrt(a);    less = 1 - kappa_1 = min(w, 1) - k1.
// psi0 = P / D and psi1 = R / D (p, r and d in coefficients.h) are quotients of polynomials in
// t = 1 - a with positive coefficients, so that no terms cancel.
template <class V>
struct Correlation {
    V w, v;
    V s;  // sqrt(a) / D(t), which psi0 and psi1 share
};

template <class V>
FORMULA Correlation<V> correlation_of(V w, V v)
{
    using R = typename RealOf<V>::type;
    const V a = smaller(w, v), t = broadcast<V>(R(1)) - a;
    return {w, v, root_over(a, polynomial(t, t * t, quotients(R()).d))};
}

template <class V>
struct Dual {
    V k0, less;
};

template <class V>
FORMULA Dual<V> dual(const Correlation<V> &correlation)
{
    using R = typename RealOf<V>::type;
    const V one = broadcast<V>(R(1)), a = smaller(correlation.w, correlation.v), t = one - a,
            square = t * t;
    const auto &q = quotients(R());
    return {polynomial(t, square, q.p) * correlation.s,
            fused(-polynomial(t, square, q.r), correlation.s * a, smaller(correlation.w, one))};
}

// kappa_0 A. It is computed without rounding kappa_0 itself, which, where it is near 1, would have
// the same rounding error in each layer.
template <class V>
FORMULA V times_slope(V k0, V w, V v, V A)
{
    const V part = k0 * A;
    return pick(w, v, A - part, part);
}

// If 1 - rho of two pixels of the input is larger than this, they are nearly opposite, and 1 + rho
// is computed as half a sum of squares, because 2 - (1 - rho) would have lost digits.
constexpr double NEARLY_OPPOSITE = 1.9;

// The positions of some table rows, counted from the first row of a merge or of NORM. The first row
// has the square roots of the variances after the operation. The next one has (a + a_0) / sqrt(2),
// or n / a of NORM. The further rows have the coordinates of all parts but part 0 (merge.py).
constexpr int FACTOR_ROW = 1, COORDINATE_ROWS = 2;

// How many numbers a line of pixels has in a table. If vectors of neighbouring right pixels are
// read from any pixel on, each line is stored twice and followed by `padding` numbers, at least as
// many as a vector has lanes. Otherwise `padding` is 0 (`row_bytes` of tabled_signals.py).
FORMULA long long line_numbers(long long line_pixels, long long padding)
{
    return padding ? 2 * line_pixels + padding : line_pixels;
}

// Whether a call returns kernels of single pixel pairs. If not, it returns sums over pixels.
FORMULA bool is_of_pixels(long long output)
{
    return output == PIXEL_1 || output == PIXELS;
}

// The sum of the terms t to end - 1, where add(t, sum) adds term t. Groups of GROUP_TERMS terms are
// added up, then groups of GROUP_TERMS such sums, and so on, DEPTH times. If no sum has more than
// GROUP_TERMS summands, which holds for up to GROUP_TERMS^(DEPTH + 1) terms, the rounding error
// grows only with DEPTH.
constexpr long long GROUP_TERMS = 32;

template <int DEPTH, class V, class Add>
FORMULA V sum_between(long long t, long long end, const Add &add)
{
    V total{};
    if constexpr (DEPTH == 0) {
        for (; t < end; t++) total = add(t, total);
    } else {
        long long step = GROUP_TERMS;
        for (int level = 1; level < DEPTH; level++) step *= GROUP_TERMS;
        for (; t < end; t += step)
            total = total + sum_between<DEPTH - 1, V>(t, t + step < end ? t + step : end, add);
    }
    return total;
}
template <class V, class Add>
FORMULA V sum_of(long long count, const Add &add)
{
    if (count <= GROUP_TERMS) return sum_between<0, V>(0, count, add);
    return count <= GROUP_TERMS * GROUP_TERMS ? sum_between<1, V>(0, count, add)
                                              : sum_between<3, V>(0, count, add);
}

// ---------------------------------------------------------------------- the steps of a layer

// A number of the job, rounded to the working precision, in all lanes.
template <class V>
FORMULA V number(double value)
{
    return broadcast<V>(typename RealOf<V>::type(value));
}

// The numbers of a pixel pair that steps pass on.
template <class V>
struct PairNumbers {
    V U, U_plus, A;
};

// The covariance, computed from the smaller one of both deficits.
template <class V>
FORMULA V covariance(V g, V U, V U_plus)
{
    return pick(U, U_plus, g - U, U_plus - g);
}

// A convolution whose taps have equal weights. `differences` are the sums, over the taps, of the
// differences from the middle tap, from which means are computed (`weighted_mean` of means.py).
template <bool WITH_U_PLUS, bool NTK, class V>
FORMULA PairNumbers<V> mean(const PairNumbers<V> &middle, const PairNumbers<V> &differences,
                            V weight, V N)
{
    PairNumbers<V> result{fused(weight, differences.U, middle.U + N), V{}, V{}};
    if (WITH_U_PLUS) result.U_plus = fused(weight, differences.U_plus, middle.U_plus + N);
    if (NTK) result.A = fused(weight, differences.A, middle.A);
    return result;
}

// The addition of biases, a part whose deficit is 0. `twice` is twice the product of the standard
// deviations of both signals' biases, and `tangent` is added to A.
template <bool WITH_U_PLUS, bool NTK, class V>
FORMULA PairNumbers<V> with_bias(PairNumbers<V> sum, V twice, V tangent, V N)
{
    sum.U = sum.U + N;
    if (WITH_U_PLUS) sum.U_plus = sum.U_plus + (twice + N);
    if (NTK) sum.A = sum.A + tangent;
    return sum;
}

// The correlation of pre-activations, from their deficits. `inverse` is 1 / g.
template <bool WITH_U_PLUS, class V>
FORMULA Correlation<V> correlation(V U, V U_plus, V inverse)
{
    const V two = number<V>(2.0), w = smaller(U * inverse, two);
    return correlation_of(w, WITH_U_PLUS ? smaller(U_plus * inverse, two) : two - w);
}

// The constants of a network's activation.
template <class V>
struct Activation {
    V lambda, inner_minus_iota, outer_plus_iota;
    bool leaks, adds_covariance;  // whether lambda is not 0, and whether inner - iota is not 0
};

template <class V>
struct Activated {
    PairNumbers<V> branch;  // its A is M
    V K;
};

// The activation, from pre-activations to the branch. `A` is the tangent kernel to which
// (inner - iota) times the covariance of the pre-activations has not been added yet.
template <bool WITH_U_PLUS, bool NTK, class V>
FORMULA Activated<V> activated(const Activation<V> &constants, const Correlation<V> &correlation,
                               V g, V A)
{
    const V w = correlation.w, v = correlation.v;
    const Dual<V> relu = dual(correlation);
    V less = relu.less, more = number<V>(2.0) - less;
    if (constants.leaks) {
        less = fused(constants.lambda, w - less, less);
        more = fused(constants.lambda, v - more, more);
    }
    const V U = g * less, K = g - U;
    Activated<V> result{{U, V{}, V{}}, K};
    if (WITH_U_PLUS) result.branch.U_plus = g * more;
    if (NTK) {
        const V rho = pick(w, v, number<V>(1.0) - w, v - number<V>(1.0));
        if (constants.adds_covariance) A = fused(constants.inner_minus_iota, g * rho, A);
        V M = times_slope(relu.k0, w, v, A);
        if (constants.leaks) M = fused(constants.lambda, A - M, M);
        result.branch.A = fused(constants.outer_plus_iota, K, M);
    }
    return result;
}

// The weighted sum of the features of a layer and its branch, in one of the forms of weights.py. N
// is given only for deficits.
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

// The pre-activations of the next layer, after a joined step: `passing` are the pre-activations on
// the identity path, and `sum` is the weighted sum of the branch over the five taps.
template <bool NTK, class V>
FORMULA PairNumbers<V> joined(V feature_weight, V branch_weight, const PairNumbers<V> &passing,
                              const PairNumbers<V> &sum, V N)
{
    PairNumbers<V> next{fused(branch_weight, sum.U, fused(feature_weight, passing.U, N)), V{}, V{}};
    if (NTK) next.A = fused(branch_weight, sum.A, feature_weight * passing.A);
    return next;
}

// The order in which two signals of one length are computed: -1 if x comes first, 1 if z does, and
// 0 if they are equal. So kernels have the same bits whichever signal is the left one. The keys
// decide, and if they are equal, the first different numbers of the tables.
template <class R>
FORMULA int order_of(long long x_key, const R *x, long long z_key, const R *z, long long numbers)
{
    if (x_key != z_key) return x_key < z_key ? -1 : 1;
    if (x == z) return 0;
    for (long long k = 0; k < numbers; k++)
        if (x[k] != z[k]) return x[k] < z[k] ? -1 : 1;
    return 0;
}
