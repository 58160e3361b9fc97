// What a call of the compiled loops is told. Fields have 8 bytes each, so that no compiler pads
// them; records.py reads their names and types from here. Tables are numbered as `Operations` of
// operations.py numbers their rows.
#pragma once
typedef long long int64;  // NVRTC has no <stdint.h>

struct Convolution {
    int64 n_taps, dilation, axis;  // axis 0 across lines, 1 along them
    int64 is_triangle;             // five taps of weights 1 2 3 2 1
    double weight, weight_error;   // of a tap of weight 1, rounded; and its rounding error
};

// How features and branch are added behind a layer: Form of weights.py.
enum Form { BRANCH_ALONE, SUM, MEAN_FROM_FEATURES, MEAN_FROM_BRANCH };

enum OperationKind { NORM, CONVOLUTION, BIAS, ACTIVATION, SKIP, JOINED };

struct Operation {
    int64 kind;
    int64 row;            // the first of its rows
    int64 root_row;       // of the roots before it
    int64 convolution;    // of CONVOLUTION and JOINED, or -1
    int64 is_branch;      // whether it is its layer's activation, or comes after it
    double bias_product;  // of BIAS, at two signals of size 1
    double feature_weight, branch_weight;  // of SKIP, rounded; of JOINED: of a tap
    int64 form;                            // of SKIP
};

struct Layer {
    int64 first, count;                    // its operations
    int64 root_row;                        // of the features' roots, or -1 behind SKIP
    int64 report;                          // the place among the depths asked for, or -1
    double feature_weight, branch_weight;  // of the sums of F and A, not rounded
    double bias_product;                   // behind the activation, at two signals of size 1
    double input_weight;                   // of F0 in the features behind the layer
};

struct Side {  // the signals of one side
    const void *rows;
    const int64 *begin;   // (n,), the place of each signal's table, or of each block of lanes
    const int64 *length;  // (n,), pixels
    const int64 *key;     // (n,): of two signals of one length, the one of smaller key is left
    const double *bias;   // (n,), the standard deviation of biases, beside a signal of size 1
    // The head's mean of F0 is the sum over terms of left times right. The right factor is
    // `means`; the left one is `pixels` with shares, else `means`.
    const double *means;   // (n, terms, places)
    const double *pixels;  // (n, terms, share_pixels), of shares
    int64 share_pixels;    // those of the longest signal, or 0 without shares
};

// Offsets of right pixels from left ones, which follow one another along a line.
struct OffsetRange {
    int64 lines, first, count;
};

// What a call returns of pixel pairs: sums over them, or kernels of single ones (`is_of_pixels`).
enum Output { SUMS, SHARES, PIXEL_1, PIXELS };

struct Job {
    int64 bytes;  // sizeof(Job): a library of another version refuses
    Side left, right;
    int64 first_left, last_left, first_right, last_right;  // the cases of this call
    int64 cases, columns, extent;  // results are (depths, cases, columns, extent for each axis)
    int64 output, all_pairs, symmetric, paired;
    int64 channels, height, line_pixels;  // height 0 for signals: all pixels are one line
    int64 n_rows;                         // of a signal's table
    int64 lanes;                          // right signals side by side, or 1
    int64 padding;          // numbers behind each doubled line of tables; 0: single lines
    int64 terms, places;    // of the means of F0
    int64 n_offset_ranges;  // of pooled heads
    int64 half;             // whether ranges have o alone, of offsets o and -o
    const OffsetRange *offset_ranges;
    const double *pool_counts;  // of pools with both pixels of an offset, range by range
    double pool_count_sum;      // over all offsets; 1 of other heads
    int64 depth, n_input, n_operations, n_convolutions, has_opposite, with_ntk;
    const Convolution *convolutions;
    const Operation *operations;  // the first n_input are of the input filter
    const Layer *layers;          // 1 ... depth
    double linear_share, initial, inner_minus_readout, outer_plus_readout, readout;
    double later_readout;  // the multiple of F that joins A behind the last layer
    double *gpk, *ntk;     // results, or null
    const int64 *stop;     // becomes 1 when the call is to end
};
