// What rows share: tables of each signal's pixels through all layers, as tables.py makes them.
//
// A block has one signal and takes it from its pixels to the last layer; a thread has every
// blockDim-th pixel. Everything is in double precision and in the order of tables.py, so that both
// give the same bits, an arctangent's last one excepted. Then it is rounded to the rows' precision
// and put where their lanes read it (`Side` in rows.cu).

#include "rows.h"

// ---------------------------------------------------------------- a pixel

// A layer's constants: Tables.unit, .factor and .step · skip, and bounds on √(kernel) that hold for
// all signals of a homogeneous network (Tables._bounds_of_all).
struct Growth {
    double unit, factor, keep;
    double bounds[2];
};

// E[σσ] and E[σ'σ'] of a pixel with itself, for a variance q: Activation.diagonal.
struct Own {
    double both, slope;
};
template <bool ERF> HD Own own(double q, double unit, double factor)
{
    constexpr double pi = 3.14159265358979311600;
    if constexpr (ERF) {
        const double root = sqrt(1.0 + 4.0 * unit * q);
        return {2.0 / pi * factor * atan(2.0 * unit * q / root), 4.0 / pi * factor * unit / root};
    } else {
        const double half = 0.5 * (factor * unit);
        return {half * q, half};
    }
}

// √(q/2) and 1/√q, or 0 where q is next to nothing, which keeps 1/(√q √q) finite: Tables._pixels.
template <class real> HD Two<real> roots_of(double q, double nothing)
{
    const double root = q < nothing ? 0.0 : sqrt(q);
    return {real(root * 0.70710678118654757274), real(root > 0 ? 1.0 / root : 0.0)};
}

// Activation.extra of erf.
template <class real> HD Two<real> extra_of(double q, double nothing, double unit)
{
    q = q < nothing ? 0.0 : q;
    return {real(0.5 + 2.0 * unit * q), real(0.5 * own<true>(q, unit, 1.0).both)};
}

// ---------------------------------------------------------------- a block

struct Larger {
    HD double operator()(double a, double b) const { return a < b ? b : a; }
};
struct Sum {
    HD double operator()(double a, double b) const { return a + b; }
};

// All threads' values in one, for all threads; there are a power of two of them.
template <class Combine> __device__ __forceinline__ double over_block(double value, Combine combine)
{
    __shared__ double values[TABLE_THREADS];
    values[threadIdx.x] = value;
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            values[threadIdx.x] = combine(values[threadIdx.x], values[threadIdx.x + step]);
    }
    __syncthreads();
    const double result = values[0];
    __syncthreads();
    return result;
}

#define EACH_PIXEL(j) for (int j = threadIdx.x; j < d; j += blockDim.x)

// A signal's recursion at x = z, j = j', layer by layer: Tables._variances. Arrays of d numbers, of
// which all threads see what has been written before a barrier.
template <bool ERF> struct Variances {
    static constexpr int ARRAYS = ERF ? 9 : 7;
    double *given, *features, *window, *both, *sums, *spare, *other;  // `given`: F⁰ before scaling
    double *tangent, *source;  // of erf alone: a homogeneous network's bounds are known
    int d, inner, outer;
    Trained<double> trained;

    __device__ __forceinline__ Variances(
        double *memory, int d, int inner, int outer, const Trained<double> &trained)
        : d(d), inner(inner), outer(outer), trained(trained)
    {
        given = memory;
        features = given + d;
        window = features + d;
        both = window + d;
        sums = both + d;
        spare = sums + d;
        other = spare + d;
        tangent = other + d;
        source = tangent + d;
    }

    // Sums over circular windows, in the order of rings.moving_sum.
    __device__ __forceinline__ void circular_sums(const double *ring, int size, double *out) const
    {
        const int half = size / 2;
        EACH_PIXEL(j) out[j] = ring[wrapped(j - half, d)];
        double *target = spare;
        for (int offset = 1, width = 1; width <= half;) {
            EACH_PIXEL(j) target[j] = ring[j] + ring[wrapped(j + width, d)];
            __syncthreads();
            ring = target;
            target = target == spare ? other : spare;
            width *= 2;
            if (size & width) {
                EACH_PIXEL(j) out[j] += ring[wrapped(j - half + offset, d)];
                offset += width;
            }
        }
        __syncthreads();
    }

    // Begin with F⁰ = given / size²; nothing of a signal without size.
    __device__ __forceinline__ void enter(double size)
    {
        EACH_PIXEL(j)
        {
            features[j] = ERF ? given[j] : size > 0 ? given[j] / (size * size) : 0.0;
            if (ERF)
                tangent[j] = trained.start * features[j];
        }
        __syncthreads();
    }

    // To the next layer's Σ / unit, F and A.
    __device__ __forceinline__ void advance(const Growth &growth, bool first)
    {
        const int size = first ? 1 : inner;
        circular_sums(features, size, window);
        if (ERF)
            circular_sums(tangent, size, source);
        EACH_PIXEL(j)
        {
            const Own pixel = own<ERF>(window[j], growth.unit, growth.factor);
            both[j] = pixel.both;
            if (ERF)
                source[j] = trained.again * pixel.both
                            + pixel.slope * (trained.cross * window[j] + source[j]);
        }
        __syncthreads();
        circular_sums(both, outer, sums);
        EACH_PIXEL(j) features[j] = growth.keep * features[j] + sums[j];
        if (ERF) {
            circular_sums(source, outer, sums);
            EACH_PIXEL(j) tangent[j] = growth.keep * tangent[j] + sums[j];
        }
        __syncthreads();
    }

    __device__ __forceinline__ double largest(const double *of) const
    {
        double most = of[0];
        EACH_PIXEL(j) most = Larger()(most, of[j]);
        return over_block(most, Larger());
    }

    // exact_sum.mean: whatever the order.
    __device__ __forceinline__ double mean(const double *of, int headroom) const
    {
        const Grids grid = grids(largest(of), headroom);
        double coarse = 0, fine = 0;
        EACH_PIXEL(j)
        {
            const double upper = (of[j] + grid.coarse) - grid.coarse;
            coarse += upper;
            fine += ((of[j] - upper) + grid.fine) - grid.fine;
        }
        coarse = over_block(coarse, Sum());
        return (coarse + over_block(fine, Sum())) / d;
    }
};

// ---------------------------------------------------------------- the kernel

// Signals are (case, channel, pixel). Results are those of `Side`, and (layer, case): each signal's
// largest variance in each layer, and behind the last one the largest energy of its pixels.
template <class real, bool ERF>
__global__ void __launch_bounds__(TABLE_THREADS, 1) side_tables(
    const double *signals, const Growth *layers, const int *slots, int n_slots, int depth,
    int channels, int d, int input, int inner, int outer, int lanes, int registers, int headroom,
    int equivariant, double input_scale, double nothing, double left, double start, double cross,
    double again, long long cases, double *memory, Two<real> *pixels, Two<real> *extra,
    real *units, double *bounds, double *peaks, double *scale)
{
    const long long number = blockIdx.x;
    const double *const signal = signals + number * channels * d;
    const Trained<double> trained{start, cross, again, 0};
    memory += number * Variances<ERF>::ARRAYS * d;
    Variances<ERF> recursion(memory, d, inner, outer, trained);

    // Squares of a homogeneous network's signals cannot leave the range: they are of order 1.
    double power = 1;
    if (!ERF) {
        double most = 0;
        for (long long k = threadIdx.x; k < (long long)channels * d; k += blockDim.x)
            most = Larger()(most, fabs(signal[k]));
        int exponent;
        frexp(over_block(most, Larger()), &exponent);
        power = ldexp(1.0, exponent);
    }
    // What a filter's tap sees of a channel at a pixel.
    auto seen = [&](int tap, int channel, int pixel) {
        return signal[(long long)channel * d + wrapped(pixel + tap - input / 2, d)] / power;
    };
    double *const norm = recursion.both;
    EACH_PIXEL(j)
    {
        double energy = 0;
        for (int tap = 0; tap < input; ++tap)
            for (int channel = 0; channel < channels; ++channel) {
                const double value = seen(tap, channel, j);
                energy += value * value;
            }
        norm[j] = energy > 0 ? sqrt(energy) : 1.0;
        recursion.window[j] = energy;
        recursion.given[j] = energy * input_scale;
    }
    __syncthreads();

    // In the order of the lanes: a register's pixel, around the ring.
    const int row = registers * lanes;
    auto pixel_at = [&](int k) { return (begin(k % lanes, lanes, d) + k / lanes) % d; };
    units += number * input * channels * row;
    for (int k = threadIdx.x; k < row; k += blockDim.x) {
        const int j = pixel_at(k);
        real *at = units + k;
        for (int tap = 0; tap < input; ++tap)
            for (int channel = 0; channel < channels; ++channel, at += row)
                *at = real(seen(tap, channel, j) / norm[j]);
    }

    const double energy = recursion.largest(recursion.window);
    if (threadIdx.x == 0)
        peaks[(depth + 1) * cases + number] = energy;

    double size = 1;
    if (!ERF) {  // Tables._yardstick
        const double average = recursion.mean(recursion.given, headroom);
        size = average;
        if (equivariant) {
            recursion.enter(1);
            for (int layer = 1; layer <= depth; ++layer)
                recursion.advance(layers[layer], layer == 1);
            const double reaching = recursion.features[0];
            size = reaching > 0 ? Larger()(reaching, 1e-30 * average) : 0.0;
            __syncthreads();
        }
        size = sqrt(size);
    }
    if (threadIdx.x == 0)
        scale[number] = size * power;

    recursion.enter(size);
    for (int layer = 0; layer <= depth; ++layer) {
        const Growth growth = layers[layer];
        if (layer > 0)
            recursion.advance(growth, layer == 1);
        const double *const variance = layer > 0 ? recursion.window : recursion.features;
        const long long first = (number * (depth + 1) + layer) * row;
        for (int k = threadIdx.x; k < row; k += blockDim.x) {
            const double q = variance[pixel_at(k)];
            const Two<real> roots = roots_of<real>(q, nothing);
            pixels[first + k] = {real(left) * roots.one, roots.other};
            if (ERF)
                extra[first + k] = extra_of<real>(q, nothing, growth.unit);
        }
        const double peak = recursion.largest(variance);
        if (threadIdx.x == 0)
            peaks[layer * cases + number] = peak;
        if (slots[layer] < 0)
            continue;
        double gpk = growth.bounds[0], ntk = growth.bounds[1];
        if (ERF) {
            gpk = sqrt(recursion.largest(recursion.features));
            ntk = sqrt(recursion.largest(recursion.tangent));
        }
        if (threadIdx.x == 0) {
            bounds[slots[layer] * cases + number] = gpk;
            bounds[(n_slots + slots[layer]) * cases + number] = ntk;
        }
    }
}
