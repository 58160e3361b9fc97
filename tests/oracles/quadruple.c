// Kernels of infinitely wide networks in 128-bit floating-point arithmetic, straight from the
// definition (definition.py).
#include <quadmath.h>
#include <stdlib.h>
typedef __float128 Q;

enum { RELU, ERF, GELU };  // activations, in the order of quadruple.py

typedef struct {
    long depth, input, activation, norm, of_input, of_inner, of_outer, of_readout, channels, length;
    double readout, input_scale, slope;
    const long *filter_size, *outer_filter_size, *dilation, *skip;  // of each layer
    const double *alpha, *c_v, *c_w, *bias;
} Network;

static long on_ring(long j, long d)
{
    return ((j % d) + d) % d;
}

// Means over the taps of a filter.
static void box(const Q *in, Q *out, long d, long taps, long step)
{
    for (long j = 0; j < d; j++) {
        out[j] = 0;
        for (long k = -(taps / 2); k <= taps / 2; k++) out[j] += in[on_ring(j + k * step, d)];
        out[j] /= taps;
    }
}

// K = E[s(u) s(v)] and D = E[s'(u) s'(v)] at covariance S and variances a and b.
static void relu(Q S, Q a, Q b, Q slope, Q *K, Q *D)
{
    const Q g = sqrtq(a) * sqrtq(b), both = (1 - slope) * (1 - slope);
    *K = 0, *D = 0.25Q;
    if (g > 0) {
        const Q rho = S > g ? 1 : S < -g ? -1 : S / g, sine = sqrtq((1 - rho) * (1 + rho));
        const Q angle = M_PIq - atan2q(sine, rho), t = rho < 0 ? atan2q(sine, -rho) : angle;
        *D = t / (2 * M_PIq);
        *K = g * (sine + t * rho) / (2 * M_PIq);
        if (rho < -0.999Q) {  // sin t - t cos t, whose terms cancel
            Q sum = 0, power = t;
            for (int k = 1; k < 14; k++)
                power *= -t * t / ((2 * k) * (2 * k + 1)), sum -= 2 * k * power;
            *K = g * sum / (2 * M_PIq);
        }
    }
    *K = slope * S + both * *K, *D = slope + both * *D;
}
static void erf_network(Q S, Q a, Q b, Q *K, Q *D)
{
    const Q m = (1 + 2 * a) * (1 + 2 * b), g = sqrtq(a) * sqrtq(b),
            rest = S < g ? (g - S) * (g + S) : 0;
    *K = 2 / M_PIq * asinq(2 * S / sqrtq(m)), *D = 4 / M_PIq / sqrtq(1 + 2 * a + 2 * b + 4 * rest);
}
// By Stein's lemma; `both` is E[step(u + x) step(v + y)] of standard normal x and y.
static void gelu(Q S, Q a, Q b, Q *K, Q *D)
{
    const Q g = sqrtq(a) * sqrtq(b), rest = S < g ? (g - S) * (g + S) : 0, d = 1 + a + b + rest,
            both = 0.25Q + atan2q(S, sqrtq(d)) / (2 * M_PIq), density = 1 / (2 * M_PIq * sqrtq(d));
    *K = S * both + density * (a * (b + rest) / (1 + a) + S * S / (1 + b));
    *D = both + density * S * (1 / (1 + a) + 1 / (1 + b) + 1 / d);
}

// Divide by the roots of both sides' variances, `variances` if x is z; 0 where one of them is 0.
static void normalize(Q *F, const Q *of_x, const Q *of_z, const Q *variances, long d, long offset)
{
    for (long j = 0; j < d; j++) {
        const Q a = variances ? variances[j] : of_x[j],
                b = variances ? variances[j] : of_z[on_ring(j + offset, d)];
        F[j] = a > 0 && b > 0 ? F[j] / (sqrtq(a) * sqrtq(b)) : 0;
    }
}

// Sums of the pair (x, z) over the pixel pairs (j, j + offset): of pixel 1 alone, and of all, for
// both kinds. `of_x` and `of_z` are variances (2, depth, d) before each activation, and before each
// layer; if there are none, they are written to `variances`.
static void offset_of(const Network *net, const double *x, const double *z, long offset,
                      const Q *of_x, const Q *of_z, Q *variances, Q first[2], Q all[2])
{
    const long d = net->length, features = net->depth * d;
    Q *F = malloc(8 * d * sizeof(Q)), *T = F + d, *S = F + 2 * d, *K = F + 3 * d, *M = F + 4 * d,
      *room = F + 5 * d, *N = F + 6 * d, *T_N = F + 7 * d;
    for (long j = 0; j < d; j++) {
        room[j] = 0;
        for (long c = 0; c < net->channels; c++)
            room[j] += (Q)x[c * d + j] * z[c * d + on_ring(j + offset, d)];
        room[j] *= net->input_scale < 0 ? 1 / (Q)net->channels : net->input_scale;
    }
    box(room, F, d, net->input, 1);
    for (long j = 0; j < d; j++) T[j] = net->of_input * F[j];
    for (long layer = 0; layer < net->depth; layer++) {
        const long inner = layer ? net->filter_size[layer] : 1, step = net->dilation[layer],
                   at = features + layer * d;
        const Q bias = (Q)net->bias[layer] * net->bias[layer], c_w = net->c_w[layer],
                c_v = net->c_v[layer], alpha = net->alpha[layer],
                strength = net->skip[layer] ? alpha * alpha : 1;
        for (long j = 0; j < d; j++) N[j] = F[j], T_N[j] = T[j];
        if (variances)
            for (long j = 0; j < d; j++) variances[at + j] = F[j];
        if (net->norm) {
            const Q *own = variances ? variances + at : 0;
            normalize(N, of_x + at, of_z + at, own, d, offset);
            normalize(T_N, of_x + at, of_z + at, own, d, offset);
        }
        box(N, S, d, inner, step), box(T_N, M, d, inner, step);
        for (long j = 0; j < d; j++) {
            const long k = on_ring(j + offset, d);
            Q slope;
            S[j] = c_w * S[j] + bias;
            if (variances) variances[layer * d + j] = S[j];
            const Q a = variances ? S[j] : of_x[layer * d + j],
                    b = variances ? S[j] : of_z[layer * d + k];
            if (net->activation == ERF)
                erf_network(S[j], a, b, &K[j], &slope);
            else if (net->activation == GELU)
                gelu(S[j], a, b, &K[j], &slope);
            else
                relu(S[j], a, b, net->slope, &K[j], &slope);
            if (variances && net->activation == RELU)
                slope = (1 + (Q)net->slope * net->slope) / 2, K[j] = slope * S[j];
            M[j] = slope * (c_w * M[j] + net->of_inner * S[j]);
        }
        box(K, S, d, net->outer_filter_size[layer], step),
            box(M, K, d, net->outer_filter_size[layer], step);
        for (long j = 0; j < d; j++) {
            const Q branch = c_v * S[j] + bias;
            F[j] = (net->skip[layer] ? F[j] : 0) + strength * branch;
            T[j] = (net->skip[layer] ? T[j] : 0) + strength * (c_v * K[j] + net->of_outer * branch);
        }
    }
    for (int kind = 0; kind < 2; kind++) {
        all[kind] = 0;
        for (long j = d - 1; j >= 0; j--) {
            first[kind] = net->readout * (kind ? T[j] + net->of_readout * F[j] : F[j]);
            all[kind] += first[kind];
        }
    }
    free(F);
}

// Normalized Gram matrices of n signals, (2 kinds, 3 heads, n, n), each number as high + low, and
// the roots of the diagonals as mantissa * 2^exponent, (2, 3, n). Heads are equivariant, trace and
// gap.
void quadruple(const Network *net, const double *X, long n, double *high, double *low,
               double *mantissa, int *exponent)
{
    const long d = net->length, C = net->channels, table = 2 * net->depth * d;
    Q *variances = malloc((n * table + 6 * n * n) * sizeof(Q)), *gram = variances + n * table,
      first[2], all[2];
    for (long i = 0; i < n; i++)
        offset_of(net, X + i * C * d, X + i * C * d, 0, 0, 0, variances + i * table, first, all);
    for (long i = 0; i < n; i++)
        for (long k = i; k < n; k++) {
            Q heads[2][3] = {{0}};
            for (long offset = 0; offset < d; offset++) {
                Q *itself = i == k && offset == 0 ? malloc(table * sizeof(Q)) : 0;
                offset_of(net, X + i * C * d, X + k * C * d, offset, variances + i * table,
                          variances + k * table, itself, first, all);
                for (int kind = 0; kind < 2; kind++) {
                    if (!offset) heads[kind][0] = first[kind], heads[kind][1] = all[kind] / d;
                    heads[kind][2] += all[kind] / d / d;
                }
                free(itself);
            }
            for (int h = 0; h < 6; h++)
                gram[(h * n + i) * n + k] = gram[(h * n + k) * n + i] = heads[h / 3][h % 3];
        }
    for (int h = 0; h < 6; h++) {
        const Q *K = gram + h * n * n;
        for (long i = 0; i < n; i++) {
            const Q own = K[i * n + i];
            mantissa[h * n + i] = (double)frexpq(own > 0 ? sqrtq(own) : 0, &exponent[h * n + i]);
            for (long k = 0; k < n; k++) {
                const Q other = K[k * n + k],
                        value =
                            own > 0 && other > 0 ? K[i * n + k] / (sqrtq(own) * sqrtq(other)) : 0;
                high[(h * n + i) * n + k] = (double)value;
                low[(h * n + i) * n + k] = (double)(value - (Q)high[(h * n + i) * n + k]);
            }
        }
    }
    free(variances);
}
