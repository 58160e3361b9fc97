// What one lane computes of a row: the dual activations, moving sums, and the way through a layer.
//
// A row is a ring of d pixel pairs (j, j + δ), shared by a team of T lanes. Lane t has the pixels
// from t·d/T (rounded down) to (t+1)·d/T: P of them, or P − 1 in a *brief* lane, whose last register
// is then idle. Everything here is the same for host and device, to the last bit but for the seed
// of a square root: products and sums are contracted only where `fma` says so (the compilers are
// told not to do it by themselves), so that a kernel does not depend on which register a pixel has.
//
// The loader (cuda.source) puts the coefficients of polynomials.py before this file.

#define HD __host__ __device__ __forceinline__

// ---------------------------------------------------------------- numbers

HD float fused(float a, float b, float c) { return fmaf(a, b, c); }
HD double fused(double a, double b, double c) { return fma(a, b, c); }

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

// In double precision comparisons of upper halves are made by the units for integers, which have
// nothing else to do. They order numbers of any sign against positive ones.

HD bool below_one(float a) { return a < 1.0f; }
HD bool below_one(double a) { return high_word(a) < 0x3ff00000; }

HD bool perhaps_less(float a, float limit) { return a <= limit; }
HD bool perhaps_less(double a, double limit) { return high_word(a) <= high_word(limit); }

// a, or next to nothing where it is not positive: a rounding error may take 2 − w below 0.
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

// √a for a that went through `at_least_0`.
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

// 1/√a to about 20 bits in double precision, to nearly all of them in single.
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
    // As coarse as the device's, which reads and writes upper halves.
    seed = 1.0 / sqrt(with_high_word(0.0, high_word(a)));
    seed = with_high_word(0.0, high_word(seed));
#endif
    return seed;
}

// One step of third order; with the seed's error 2^-20 it ends within a unit of the last place.
HD double square_root(double a)
{
    const double seed = inverse_root_seed(a);
    const double root = a * seed;
    const double error = fused(-root, seed, 1.0);
    return fused(root * error, fused(error, 0.375, 0.5), root);
}

// 1/√a by the same step, for a that is far from the ends of the range.
template <class real> HD real inverse_root(real a)
{
    const real seed = inverse_root_seed(a);
    const real error = fused(-(a * seed), seed, real(1));
    return fused(seed * error, fused(error, real(0.375), real(0.5)), seed);
}

// exact_sum.py: constants whose addition rounds to two grids.
struct Grids {
    double coarse, fine;
};
HD Grids grids(double bound, int headroom)
{
    int exponent;
    frexp(bound, &exponent);
    return {ldexp(1.5, exponent + headroom), ldexp(1.5, exponent + 2 * headroom - 53)};
}

template <int N, class real> HD real horner(const real (&c)[N], real a)
{
    real sum = c[N - 1];
#pragma unroll
    for (int k = N - 2; k >= 0; --k)
        sum = fused(sum, a, c[k]);
    return sum;
}

HD float angle(float a) { return horner(P32, a); }
HD double angle(double a) { return horner(P64, a); }
HD float gap(float a) { return horner(R32, a); }
HD double gap(double a) { return horner(R64, a); }

// ---------------------------------------------------------------- activations

// A pixel's table: √(2q) on the left, √(q/2) on the right, and 1/√q, of its variance q. For erf two
// more: see activations.Erf.extra.
template <class real> struct alignas(2 * sizeof(real)) Two {
    real one, other;
};

// A layer's constants: what its branch is multiplied by, what is kept of the state, the largest
// distance at which there may be a tie, and the unit of variances. For ReLU the first is half of
// the factor, and is left to where the branch is added to the state.
template <class real> struct alignas(4 * sizeof(real)) Layer {
    real factor, keep, near, unit;
};

// What all layers have in common: 1 or 0 for trained parts (theory.md, section 3), and the
// relative size of rounding errors that counts as a tie.
template <class real> struct Trained {
    real start;  // input + readout
    real cross;  // inner − readout
    real again;  // outer + readout
    real tie;
};

// What the residual branch brings at a pixel pair: distance, covariance K, and the tangent's
// source K̇ ⊙ (…) + (o + r) K.
template <class real> struct Branch {
    real gap, both, source;
};

// ReLU (theory.md, section 4b) of pixels with g = √(q1 q2), h = √(q1/2) − √(q2/2), w = 1 − ρ and
// v = 1 + ρ, times 2/c_v.
template <bool NTK, class real>
HD Branch<real> relu(real g, real h, real w, real v, real tangent, real again)
{
    const bool near = below_one(w);
    const real a = at_least_0(near ? w : v);
    const real root = square_root(a);
    const real deficit = fused(-(root * a), gap(a), near ? w : real(1));  // 1 − κ1
    const real far = g * deficit;
    Branch<real> branch;
    branch.gap = fused(h, h, far);
    branch.both = g - far;
    branch.source = 0;
    if (NTK) {
        const real slope = fused(with_sign(root, near), angle(a), near ? real(1) : real(0));  // κ0
        branch.source = fused(again, branch.both, slope * tangent);
    }
    return branch;
}

// erf (activations.Erf) from the covariance in units of `unit`, times the factor. Δ is 1 at least,
// so that arctan2(2S, √Δ) is the arctangent of a quotient, and all that is divided by is √Δ.
template <class real>
HD Branch<real> erf_dual(
    real half_g, real w, real covariance, real tangent, Two<real> extra, real unit, real factor,
    real again)
{
    const real g = 2 * unit * half_g, s = unit * covariance;
    real above = g + s;  // a rounding error may take it below 0
    above = above > 0 ? above : real(0);
    const real inverse = inverse_root(fused(4 * g * w, above, extra.one));  // 1/√Δ
    Branch<real> branch;
    branch.both = factor * real(0.63661977236758134308) * atan(2 * s * inverse);
    branch.gap = fused(factor, extra.other, -branch.both);
    const real slope = factor * unit * real(1.27323954473516268615) * inverse;
    branch.source = fused(again, branch.both, slope * tangent);
    return branch;
}

// ---------------------------------------------------------------- moving sums

// Sums over windows of Q of the P + Q − 1 numbers of a lane and its neighbours: windows of 1, 3 or 9
// pixels, each of them three of the size before, so that the additions are the same at every pixel.
template <int Q, int P, class real> HD void sums(const real (&wide)[P + Q - 1], real (&out)[P])
{
    static_assert(Q % 2 == 1 && Q <= 15, "longer filters take long_sums");
    if constexpr (Q == 1) {
#pragma unroll
        for (int j = 0; j < P; ++j)
            out[j] = wide[j];
    } else if constexpr (Q == 3) {
#pragma unroll
        for (int j = 0; j < P; ++j)
            out[j] = wide[j] + (wide[j + 1] + wide[j + 2]);
    } else {
        constexpr int threes = P + Q - 3;
        real three[threes];
#pragma unroll
        for (int j = 0; j < threes; ++j)
            three[j] = wide[j] + (wide[j + 1] + wide[j + 2]);
        constexpr int width = Q > 9 ? 9 : 3, rest = Q - width;
#pragma unroll
        for (int j = 0; j < P; ++j) {
            const int second = j + width, third = j + Q - (rest > 4 ? 3 : 1);
            real widest = three[j];
            if (width == 9)
                widest = three[j] + (three[j + (Q > 9 ? 3 : 0)] + three[j + (Q > 9 ? 6 : 0)]);
            const real two = rest > 2 ? three[second < threes ? second : 0] : wide[second];
            const real last = rest > 4 ? three[third < threes ? third : 0] : wide[third];
            out[j] = widest + (two + last);
        }
    }
}

// Where a lane's pixels begin. (There are at most d lanes, and d² is far from overflow.)
HD int begin(int lane, int lanes, int d) { return lane * d / lanes; }

// What a lane shows the next one, the k-th of its last `half` pixels, and the one before, of its
// first; EVEN: no lane is brief.
template <bool EVEN, int P, class real>
HD real to_next(const real (&own)[P], int half, int k, bool brief)
{
    const int place = P - half + k;
    return !EVEN && place > 0 && brief ? own[place > 0 ? place - 1 : 0] : own[place];
}
template <int P, class real> HD real to_previous(const real (&own)[P], int k) { return own[k]; }

// A lane's pixels between those of its neighbours.
template <bool EVEN, int Q, int P, class real>
HD void between(
    const real (&left)[Q], const real (&own)[P], const real (&right)[Q], bool brief,
    real (&wide)[P + Q - 1])
{
    constexpr int half = Q / 2;
#pragma unroll
    for (int k = 0; k < half; ++k) {
        wide[k] = left[k];
        wide[half + P + k] = !EVEN && brief && k + 1 < half ? right[k + 1] : right[k];
    }
#pragma unroll
    for (int j = 0; j < P; ++j)
        wide[half + j] = own[j];
    if (!EVEN && half > 0 && brief)
        wide[half + P - 1] = right[0];
}

HD int wrapped(int pixel, int d)
{
    pixel %= d;
    return pixel < 0 ? pixel + d : pixel;
}

// Sums over windows of any size of a ring in memory, of P pixels from `first` on. Those of all P
// windows have their middle in common; the rest of each is a sum that grows to the left and one
// that grows to the right.
template <int P, class real>
HD void long_sums(const real *ring, int d, int size, int first, real (&out)[P])
{
    const int half = size / 2;
    int pixel = wrapped(first + P - 1 - half, d);
    real middle = 0, missing = 0;
    for (int k = P - 1; k < size; ++k) {
        const real term = ring[pixel] + missing, sum = middle + term;
        missing = term - (sum - middle);
        middle = sum;
        pixel = pixel + 1 == d ? 0 : pixel + 1;
    }
    real left[P], right = 0;
    left[P - 1] = 0;
    int before = wrapped(first + P - 2 - half, d);
#pragma unroll
    for (int j = P - 2; j >= 0; --j) {
        left[j] = left[j + 1] + ring[before];
        before = before == 0 ? d - 1 : before - 1;
    }
#pragma unroll
    for (int j = 0; j < P; ++j) {
        out[j] = middle + (left[j] + right);
        right += ring[pixel];
        pixel = pixel + 1 == d ? 0 : pixel + 1;
    }
}

// The same by `sums` for short filters, Q being their size; 0 for `size` pixels.
template <int Q, int P, class real>
HD void ring_sums(const real *ring, int d, int size, int first, real (&out)[P])
{
    if constexpr (Q == 0) {
        long_sums(ring, d, size, first, out);
    } else {
        real wide[P + Q - 1];
        int pixel = wrapped(first - Q / 2, d);
#pragma unroll
        for (int j = 0; j < P + Q - 1; ++j) {
            wide[j] = ring[pixel];
            pixel = pixel + 1 == d ? 0 : pixel + 1;
        }
        sums<Q>(wide, out);
    }
}

// ---------------------------------------------------------------- a lane's pixels

// D, A and F (reference.py) of a lane's pixel pairs. F is not filtered where only its sum over
// pixels is wanted, which a filter multiplies by its size.
template <int P, class real> struct State {
    real distance[P], tangent[P], features[P];
};

template <int P, class real> struct Brought {
    real gap[P], both[P], source[P];
};

// The two pixels of a pair in one layer: g/unit, h, and 1/g.
template <class real> struct Pair {
    real g, h, inverse;
};

template <class real> HD Pair<real> pair(Two<real> left, Two<real> right)
{
    Pair<real> pair;
    pair.g = left.one * right.one;
    pair.h = fused(left.one, real(0.5), -right.one);
    pair.inverse = left.other * right.other;
    return pair;
}

// w = (D − z)/g, or 0 where D − z is no larger than its own rounding error (tables.TIE_UNITS).
template <class real> HD real untied(real w, Two<real> left, Two<real> right, real tie)
{
    const Pair<real> both = pair(left, right);
    const real size = both.h < 0 ? -both.h : both.h, sum = fused(left.one, real(0.5), right.one);
    return w > tie * (size * sum) * both.inverse ? w : real(0);
}

// D, A and F of the features that enter, from w = 1 − ρ of the input's pixels.
template <bool NTK, class real>
HD void enter(
    Pair<real> pair, real w, real start, real share, real &distance, real &tangent, real &features)
{
    const real far = pair.g * w;
    distance = fused(pair.h, pair.h, far);
    const real entering = pair.g - far;
    features = share * entering;
    tangent = NTK ? start * entering : real(0);
}

// (i − r) Σ, which frozen or trained inner weights add to the tangent.
template <class real> HD real crossed(real tangent, real cross, real g, real w)
{
    return fused(cross, g - g * w, tangent);
}
