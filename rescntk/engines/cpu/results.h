// The results of a call, computed from the sums and states of strips.
#pragma once
#include "strip.h"

namespace
{
template <class R, bool NTK>
struct Results {
    using V = typename Lanes<R>::V;
    const Job &job;

    explicit Results(const Job &job) : job(job) {}

    // For results of single pixels: write the kernels after a layer. The kernel of a pixel and
    // lane is written to the index index_of(pixel, lane), unless this is -1.
    template <class Index>
    void write_pixels(const Strip<R> &strip, const Layer &l, Index index_of) const
    {
        const int64 numbers =
            job.cases * job.columns * (job.output == PIXELS ? job.extent * job.extent : 1);
        for (int64 j = strip.layout->counted_begin; j < strip.layout->counted_end; j++) {
            const V F = l.std_row < 0
                            ? fused(number<V>(l.input_weight), strip.pixel_kernels.F0[j],
                                    strip.pixel_kernels.F[j])
                            : strip.rows_from(j).product(l.std_row, j) - strip.features.U[j];
            for (int64 q = 0; q < strip.valid_lanes; q++) {
                const int64 index = index_of(j - strip.layout->counted_begin, q);
                if (index < 0) continue;
                if (job.gpk) job.gpk[l.depth_index * numbers + index] = double(F[q]);
                if (NTK && job.ntk)
                    job.ntk[l.depth_index * numbers + index] =
                        double(strip.features.A[j][q]) + job.later_readout * double(F[q]);
            }
        }
    }

    // Set the sums of F0 of a lane to `times` the means of F0. These are computed from products of
    // the signals' means, because they may be 0 although the terms of the sum are not.
    void sum_F0(const Strip<R> &strip, int64 lane, const Side &a, int64 s, const Side &b, int64 t,
                double times) const
    {
        const int64 terms = job.terms;
        const bool shares = job.output == SHARES;
        for (int64 p = 0; p < strip.sums.left_pixels; p++) {
            const int64 mean_pixel = job.mean_pixels > 1 ? p : 0;
            const double sum =
                !shares && job.n_offset_ranges
                    ? product(a.means + s * terms, b.means + t * terms, terms)
                    : sum_of<double>(terms, [&](int64 c, double part) INLINED {
                          const double left =
                              shares ? a.left_terms[(s * terms + c) * a.share_pixels + p]
                                     : a.means[s * terms + c];
                          return part +
                                 left * b.means[(t * terms + c) * job.mean_pixels + mean_pixel];
                      });
            strip.sums.at(0, 0, p)[lane] = sum * times;
        }
    }

    // For results that are sums: write the kernels at the requested depths, from the sums of a
    // lane, to the index `begin`. The sums are divided by `count`. `bias_products` is the sum over
    // pixel pairs of the product of the standard deviations of both signals' biases.
    void write_sums(const Strip<R> &strip, int64 lane, double count, double bias_products,
                    int64 begin) const
    {
        const Sums &sums = strip.sums;
        const int64 numbers = job.cases * job.columns * (job.output == SHARES ? job.extent : 1);
        if (job.output == SHARES)
            for (int64 layer = 1; layer <= job.depth; layer++)
                for (int kind = 0; kind < 2; kind++)
                    average(strip, sums.at(kind, layer, 0) + lane, job.layers[layer - 1]);
        for (int64 p = 0; p < sums.left_pixels; p++) {
            const double F0 = sums.at(0, 0, p)[lane];
            double F = 0, A = 0;
            for (int64 layer = 1; layer <= job.depth; layer++) {
                const Layer &l = job.layers[layer - 1];
                const double product = bias_products * l.bias_variance,
                             K = sums.at(0, layer, p)[lane], M = sums.at(1, layer, p)[lane];
                F = l.feature_weight * F + l.branch_weight * (K + product);
                A = l.feature_weight * A + l.branch_weight * (M + job.outer_plus_iota * product);
                if (l.depth_index < 0) continue;
                const int64 index = l.depth_index * numbers + begin + p;
                const double gpk = F + l.input_weight * F0,
                             tangent = A + l.input_weight * job.initial * F0;
                if (job.gpk) job.gpk[index] = gpk / count;
                if (job.ntk) job.ntk[index] = (tangent + job.later_readout * gpk) / count;
            }
        }
    }

private:
    // The sum of products. Eight partial sums do not depend on each other, so that the processor
    // computes them at the same time.
    static double product(const double *a, const double *b, int64 n)
    {
        constexpr int64 N_PARTS = 8, BLOCK = GROUP_TERMS * N_PARTS;
        return sum_of<double>((n + BLOCK - 1) / BLOCK, [&](int64 block, double total) INLINED {
            const int64 stop = block * BLOCK + BLOCK < n ? block * BLOCK + BLOCK : n;
            double part[N_PARTS] = {}, sum = 0;
            int64 k = block * BLOCK;
            for (; k + N_PARTS <= stop; k += N_PARTS) {
                UNROLL
                for (int64 q = 0; q < N_PARTS; q++) part[q] += a[k + q] * b[k + q];
            }
            for (; k < stop; k++) sum += a[k] * b[k];
            for (const double term : part) sum += term;
            return total + sum;
        });
    }
    // Replace numbers at the left pixels by their means over the taps of the outer filter.
    void average(const Strip<R> &strip, double *numbers, const Layer &l) const
    {
        const int64 left_pixels = strip.sums.left_pixels, lanes = strip.sums.lanes;
        double *const means = (double *)strip.spare_states->one.U;
        for (int64 m = l.first; m < l.first + l.count; m++) {
            const Operation &o = job.operations[m];
            if (o.kind != CONVOLUTION || !o.after_activation) continue;
            const Convolution &convolution = job.convolutions[o.convolution];
            for (int64 p = 0; p < left_pixels; p++) {
                double sum = 0;
                for (int64 t = -(convolution.n_taps / 2); t <= convolution.n_taps / 2; t++) {
                    const int64 by = t * convolution.dilation;
                    sum +=
                        numbers[lanes * (job.height ? strip.layout->shifted(p, by, convolution.axis)
                                                    : modulo(p + by, left_pixels))];
                }
                means[p] = sum / double(convolution.n_taps);
            }
            for (int64 p = 0; p < left_pixels; p++) numbers[lanes * p] = means[p];
        }
    }
};
}  // namespace
