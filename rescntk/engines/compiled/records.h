// The argument of a call of the compiled loops, `Job`, and the records that it points to. Each
// field has 8 bytes, so that no compiler pads it. records.py reads the names and types of the
// fields from this file. The numbers of table rows are those of `Operations` in operations.py.
#pragma once
typedef long long int64;  // NVRTC has no <stdint.h>

struct Convolution {
    int64 n_taps, dilation, axis;  // axis 0 across lines, 1 along them
    int64 is_triangle;             // whether the taps are five with the weights 1 2 3 2 1
    double weight, weight_error;   // 1 over the sum of the weights, rounded; its rounding error
};

// The formula that adds features and branch at the end of a layer: Form of weights.py.
enum Form { BRANCH_ALONE, SUM, MEAN_FROM_FEATURES, MEAN_FROM_BRANCH };

enum OperationKind { NORM, CONVOLUTION, BIAS, ACTIVATION, SKIP, JOINED };

struct Operation {
    int64 kind;
    int64 row;               // the number of the first of its table rows
    int64 std_row;           // the table row of the standard deviations before it
    int64 convolution;       // of CONVOLUTION and JOINED: the index of the convolution; else -1
    int64 after_activation;  // whether it is the activation of its layer, or comes after it
    double bias_variance;    // of BIAS: the variance of the biases, for two signals of size 1
    double feature_weight, branch_weight;  // of SKIP, rounded; of JOINED: the weights of a tap
    int64 form;                            // of SKIP
};

struct Layer {
    int64 first, count;  // the index of its first operation, and the number of its operations
    int64 std_row;       // the row of the features' standard deviations; -1 if it ends with SKIP
    int64 depth_index;   // the index of this depth among the requested ones, or -1
    double feature_weight, branch_weight;  // for sums of F and A; they are not rounded
    double bias_variance;  // of biases after the activation, in the unit of that of Operation
    double input_weight;   // the weight of F0 in the features after the layer
};

struct Side {  // the left or the right signals of a call
    const void *rows;
    const int64 *begin;   // (n,), where each table begins, or each group of tables
    const int64 *length;  // (n,), the number of pixels
    const int64 *key;     // (n,), see `order_of` in formulas.h
    const double *bias;   // (n,), the standard deviation of biases, divided by the signal's scale
    // The head's mean of F0 is a sum over terms of a left factor times a right factor. The right
    // factor is `means`. The left factor is `left_terms` if there are shares, and `means` if not.
    const double *means;       // (n, terms, mean_pixels)
    const double *left_terms;  // (n, terms, share_pixels), only for shares
    int64 share_pixels;        // the number of pixels of the longest signal; 0 without shares
};

// Consecutive offsets of right pixels from left ones, along a line.
struct OffsetRange {
    int64 line_shift;  // the number of lines from left to right pixels
    int64 first;       // the first offset along the line
    int64 count;       // the number of offsets
};

// The results of a call: sums over pixel pairs, or kernels of single ones (`is_of_pixels`).
enum Output { SUMS, SHARES, PIXEL_1, PIXELS };

// `Program` of program.py fills the fields of the network and of the results. Each engine adds the
// signals of a call, and the CPU also how its tables are laid out and where it looks for its end.
struct Job {
    int64 bytes;  // sizeof(Job), by which a library of another version recognizes that it differs
    // The signals of this call: those from first_... to end_... - 1 of each side.
    Side left, right;
    int64 first_left, end_left, first_right, end_right;
    // How tables of right signals are laid out on the CPU. If not 0, `padding` numbers follow each
    // line of a table, which is stored twice.
    int64 n_interleaved;  // the number of signals whose tables are interleaved, or 1
    int64 padding;
    const int64 *stop;  // becomes 1 if the call should end; only on the CPU
    // The results.
    double *gpk, *ntk;                // where kernels are written; null if not requested
    int64 cases, columns, extent;     // the shape is (depths, cases, columns, extent for each axis)
    int64 output, symmetric, paired;  // `output` is one of `Output`
    // The signals and the pixel pairs that the head reads.
    int64 channels, height, line_pixels;  // height is 0 for signals, whose pixels are one line
    int64 all_pairs;                      // whether all pixel pairs are computed
    int64 n_rows;                         // the number of rows of a signal's table
    int64 terms, mean_pixels;             // the shape of `means` of F0
    // The offsets of a pooled head; n_offset_ranges is 0 for other heads.
    int64 n_offset_ranges;
    int64 half;  // whether ranges have only one of the offsets o and -o
    const OffsetRange *offset_ranges;
    const double *pool_counts;  // for each offset, the number of pools that have both pixels
    double pool_count_sum;      // the sum of these numbers over all offsets; 1 for other heads
    // The network.
    int64 depth, n_input, n_operations, n_convolutions, has_U_plus, with_ntk;
    const Convolution *convolutions;
    const Operation *operations;  // the first n_input ones are those of the input filter
    const Layer *layers;          // layers 1 ... depth
    double linear_share, initial, inner_minus_iota, outer_plus_iota, iota;
    double later_readout;  // the multiple of F that is added to A after the last layer
};
