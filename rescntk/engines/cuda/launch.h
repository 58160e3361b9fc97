// The argument of a launch of the GPU kernel. launch_plan.py reads the record and the numbers from
// this file.
#pragma once
#include "../compiled/records.h"

struct Launch {
    Job job;  // cases are counted from `first_row` and `first_column` on
    int64 first_row, first_column;
    int64 threads, teams;  // threads of a team, teams of a block
    int64 units;           // blocks of a pair of signals that share its offsets
    int64 n_depths;        // asked for; the sums of each unit are kept apart
    int64 team_bytes;      // of shared memory
};

// Copies of pixels from the other end of a ring on each side of a row in shared memory:
// convolutions of five taps read them without going around.
constexpr int HALO = 2;

// Most threads of a block, for which the compiler keeps registers.
constexpr int MOST_THREADS = 512;
