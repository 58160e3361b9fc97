// Segments of a row, and sums over the windows of a circular filter.
//
// A row is a ring of d pixel pairs (j, j + δ). It is cut into T segments, one thread each at a
// time. Segments have P pixels; the last ones, the *short segments*, have P − 1, and their last
// register is idle.

#include "numbers.h"

template <int P> struct Segments {
    int number, d;

    // Segments that are not short.
    HD int whole() const { return d - number * (P - 1); }
    HD bool is_short(int segment) const { return segment >= whole(); }
    // First pixel of a segment.
    HD int begin(int segment) const
    {
        return segment * (P - 1) + (segment < whole() ? segment : whole());
    }
    // The segment that has a pixel.
    HD int having(int pixel) const
    {
        const int rest = pixel - whole() * P;
        return rest < 0 ? pixel / P : whole() + rest / (P > 1 ? P - 1 : 1);
    }
};

// ---------------------------------------------------------------- windows of registers

// Sums over windows of Q of P + Q − 1 neighbouring numbers. Windows of 1, 3 and 9 pixels are made
// of three windows of the size before, so every pixel has the same order of additions.
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

// The k-th of a segment's last `half` pixels, for the next segment. EVEN: no segment is short.
template <bool EVEN, int P, class real>
HD real to_next(const real (&own)[P], int half, int k, bool short_segment)
{
    const int place = P - half + k;
    return !EVEN && place > 0 && short_segment ? own[place > 0 ? place - 1 : 0] : own[place];
}

// The k-th of a segment's first pixels, for the previous segment.
template <int P, class real> HD real to_previous(const real (&own)[P], int k) { return own[k]; }

// Put a segment's pixels between the halos of its two neighbours.
template <bool EVEN, int Q, int P, class real>
HD void between(
    const real (&left)[Q], const real (&own)[P], const real (&right)[Q], bool short_segment,
    real (&wide)[P + Q - 1])
{
    constexpr int half = Q / 2;
#pragma unroll
    for (int k = 0; k < half; ++k) {
        wide[k] = left[k];
        wide[half + P + k] = !EVEN && short_segment && k + 1 < half ? right[k + 1] : right[k];
    }
#pragma unroll
    for (int j = 0; j < P; ++j)
        wide[half + j] = own[j];
    if (!EVEN && half > 0 && short_segment)
        wide[half + P - 1] = right[0];
}

// ---------------------------------------------------------------- windows of a ring in memory

// The pixel on the ring, of a number up to d. A division takes as long as a whole window.
HD int wrapped(int pixel, int d)
{
    if (pixel < -d)  // a filter longer than the ring
        pixel %= d;
    if (pixel < 0)
        pixel += d;
    return pixel < d ? pixel : pixel - d;
}

// Sums over windows of any `size`, for P pixels from `first` on. All P windows share their middle;
// the rest of each window is a sum that grows to the left and a sum that grows to the right.
template <int P, class real>
HD void long_sums(const real *ring, int d, int size, int first, real (&out)[P])
{
    const int half = size / 2;
    int pixel = wrapped(first + P - 1 - half, d);
    real middle = 0, missing = 0;  // Kahan's summation
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

// Sums over the taps of a dilated filter, `step` pixels apart (1 to d), for P pixels from `first`
// on. Neighbouring pixels have no taps in common.
template <int Q, int P, class real>
HD void dilated_sums(const real *ring, int d, int size, int step, int first, real (&out)[P])
{
    const int reach = Q ? Q / 2 * step : int((long long)(size / 2) * step % d);
    int start = wrapped(first - reach, d);
#pragma unroll
    for (int j = 0; j < P; ++j) {
        int pixel = start;
        auto next = [&] {
            const real value = ring[pixel];
            pixel = pixel + step < d ? pixel + step : pixel + step - d;
            return value;
        };
        if constexpr (Q == 0) {
            real sum = 0, missing = 0;  // Kahan's summation
            for (int k = 0; k < size; ++k) {
                const real term = next() + missing, more = sum + term;
                missing = term - (more - sum);
                sum = more;
            }
            out[j] = sum;
        } else {
            real taps[Q], sum[1];
#pragma unroll
            for (int k = 0; k < Q; ++k)
                taps[k] = next();
            sums<Q>(taps, sum);
            out[j] = sum[0];
        }
        start = start + 1 == d ? 0 : start + 1;
    }
}

// Window sums of a ring: by `sums` for a short filter of size Q, by `long_sums` for Q = 0, and by
// `dilated_sums` for dilated filters.
template <int Q, bool DILATED, int P, class real>
HD void ring_sums(const real *ring, int d, int size, int step, int first, real (&out)[P])
{
    if constexpr (DILATED) {
        dilated_sums<Q>(ring, d, size, step, first, out);
    } else if constexpr (Q == 0) {
        long_sums(ring, d, size, first, out);
    } else {
        real wide[P + Q - 1];
        const int start = first - Q / 2;
        if (start >= 0 && start + P + Q - 1 <= d) {
#pragma unroll
            for (int j = 0; j < P + Q - 1; ++j)
                wide[j] = ring[start + j];
        } else {  // few; volatile, or the compiler makes one load of both, with an address each
            int pixel = wrapped(start, d);
            const volatile real *const around = ring;
#pragma unroll
            for (int j = 0; j < P + Q - 1; ++j) {
                wide[j] = around[pixel];
                pixel = pixel + 1 == d ? 0 : pixel + 1;
            }
        }
        sums<Q>(wide, out);
    }
}
