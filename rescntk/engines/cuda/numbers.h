// Arithmetic of single numbers: products with one rounding, roots, polynomials, summation grids.
//
// Host and device compute the same bits, except the seed of a square root. Compilers may not
// contract a·b + c by themselves (--fmad=false); `fused` contracts where the formula asks for it.
// So a result does not depend on the register that a pixel happens to have.
//
// The loader (compiler.py) puts the coefficients of polynomials.py before this file.

#define HD __host__ __device__ __forceinline__

// a·b + c with one rounding.
HD float fused(float a, float b, float c) { return fmaf(a, b, c); }
HD double fused(double a, double b, double c) { return fma(a, b, c); }

// The upper 32 bits of a double: sign, exponent and 20 bits of the fraction.
#if defined(__CUDA_ARCH__)
HD int high_word(double a) { return __double2hiint(a); }
HD double with_high_word(double a, int high) { return __hiloint2double(high, __double2loint(a)); }
#else
HD int high_word(double a)
{
    long long bits;
    __builtin_memcpy(&bits, &a, 8);
    return (int)(bits >> 32);
}
HD double with_high_word(double a, int high)
{
    long long bits;
    __builtin_memcpy(&bits, &a, 8);
    bits = (bits & 0xffffffffLL) | ((long long)high << 32);
    __builtin_memcpy(&a, &bits, 8);
    return a;
}
#endif

// ---------------------------------------------------------------- comparisons

// In double precision these compare upper words. Integer units do that while the FP64 units are
// busy. Upper words order numbers of any sign against positive numbers.

HD bool below_one(float a) { return a < 1.0f; }
HD bool below_one(double a) { return high_word(a) < 0x3ff00000; }

// Return a where it is positive, else 0 or a number next to 0: rounding may take 2 − w below 0.
HD float at_least_0(float a) { return a > 0.0f ? a : 0.0f; }
HD double at_least_0(double a)
{
    const int high = high_word(a);
    return with_high_word(a, high > 0x00100000 ? high : 0x00100000);
}

HD float with_sign(float a, bool negative) { return negative ? -a : a; }
HD double with_sign(double a, bool negative)
{
    return negative ? with_high_word(a, high_word(a) ^ (int)0x80000000) : a;
}

// ---------------------------------------------------------------- roots

// √a of a result of `at_least_0`.
HD float square_root(float a)
{
#if defined(__CUDA_ARCH__)
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(a));
    return root;
#else
    return sqrtf(a);
#endif
}

// Approximate 1/√a: to about 20 bits in double precision, to nearly all bits in single.
HD float inverse_root_seed(float a)
{
#if defined(__CUDA_ARCH__)
    float seed;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(seed) : "f"(a));
    return seed;
#else
    return 1.0f / sqrtf(a);
#endif
}
HD double inverse_root_seed(double a)
{
    double seed;
#if defined(__CUDA_ARCH__)
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(seed) : "d"(a));
#else
    // The device's instruction reads and writes upper words only.
    seed = 1.0 / sqrt(with_high_word(0.0, high_word(a)));
    seed = with_high_word(0.0, high_word(seed));
#endif
    return seed;
}

// √a by one step of third order: a seed's error of 2^-20 becomes one unit of the last place.
HD double square_root(double a)
{
    const double seed = inverse_root_seed(a);
    const double root = a * seed;
    const double error = fused(-root, seed, 1.0);
    return fused(root * error, fused(error, 0.375, 0.5), root);
}

// ---------------------------------------------------------------- sums without an order

// The grids that round terms, coarse to fine (exact_sum.py): their units are 2 to the power of
// exponent + (k + 1)·headroom − 53 k − 52. Two grids are enough for up to 2^16 terms; three, for any
// number that an int holds.
constexpr int MOST_GRIDS = 3;
template <class real> struct Grids {
    int exponent, headroom;  // terms are below 2^exponent, or exceed it by a factor 2 at most
};

// A power of two, of a normal number.
HD double power_of_two(int n) { return with_high_word(0.0, (1023 + n) * (1 << 20)); }

template <class real> HD Grids<real> grids(double bound, int headroom)
{
    constexpr int least = sizeof(real) == 4 ? -126 : -800;
    const int exponent = (high_word(bound) >> 20) - 1022;
    return {exponent > least ? exponent : least, headroom};
}

// Add `terms`, rounded to the first `number` grids, to their sums at sum[k * stride].
template <int P>
HD void add_on_grids(
    const Grids<double> &grids, const double (&terms)[P], int number, double *sum, int stride)
{
    double rest[P];
#pragma unroll
    for (int j = 0; j < P; ++j)
        rest[j] = terms[j];
#pragma unroll
    for (int k = 0; k < MOST_GRIDS; ++k) {
        if (k >= number)
            break;
        const double round
            = 1.5 * power_of_two(grids.exponent + (k + 1) * grids.headroom - 53 * k);
        double whole = 0;
#pragma unroll
        for (int j = 0; j < P; ++j) {
            const double part = (rest[j] + round) - round;
            whole += part;
            rest[j] -= part;
        }
        sum[k * stride] += whole;
    }
}

// In single precision the same numbers in units of the grids, as integers: many devices have few FP64
// units. What a grid leaves of most terms is 0. NaN and infinity are not integers, and leave NaN.
template <int P>
HD void add_on_grids(
    const Grids<float> &grids, const float (&terms)[P], int number, double *sum, int stride)
{
    float rest[P];
#pragma unroll
    for (int j = 0; j < P; ++j)
        rest[j] = terms[j] * float(power_of_two(-grids.exponent));
    float left = 0;
#pragma unroll
    for (int k = 0; k < MOST_GRIDS; ++k) {
        if (k >= number)
            break;
        const int bits = 53 - grids.headroom;
        const float finer = float(power_of_two(k == 0 ? bits - 1 : bits));
        long long whole = 0;
        left = 0;
#pragma unroll
        for (int j = 0; j < P; ++j) {
            const float scaled = rest[j] * finer, rounded = rintf(scaled);
            whole += (long long)rounded;
            rest[j] = scaled - rounded;
            left += fabsf(rest[j]);
        }
        sum[k * stride] += double(whole) * power_of_two(grids.exponent + 1 - (k + 1) * bits);
        if (left == 0)
            break;
    }
    if (left != left)
        *sum = left;
}

// ---------------------------------------------------------------- polynomials

template <int N, class real> HD real horner(const real (&c)[N], real a)
{
    real sum = c[N - 1];
#pragma unroll
    for (int k = N - 2; k >= 0; --k)
        sum = fused(sum, a, c[k]);
    return sum;
}

// p(a) = arccos(1−a)/(π√a) and r(a) = (√(a(2−a)) − (1−a) arccos(1−a))/(π a^{3/2}) on [0, 1].
HD float p_poly(float a) { return horner(P32, a); }
HD double p_poly(double a) { return horner(P64, a); }
HD float r_poly(float a) { return horner(R32, a); }
HD double r_poly(double a) { return horner(R64, a); }
