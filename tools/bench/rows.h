/* Results of `accrue bench`: devices with their roofs, and rows with a result for each device. */
#ifndef TOOLS_BENCH_ROWS_H
#define TOOLS_BENCH_ROWS_H

#include <accrue/accrue.h>

enum { BENCH_DEVICES = 8 };

typedef enum bench_kind { BENCH_GEMM, BENCH_OP, BENCH_STEP, BENCH_KINDS } bench_kind;

/* Results that only an update has. */
typedef struct bench_step {
  int64_t micro_batch, accumulation_steps, recomputed_ops, samples;
  uint64_t planned_bytes, peak_bytes;
  double predicted_seconds;
} bench_step;

typedef struct bench_result {
  bool measured;
  ac_bench_timing timing; /* all visits together */
  ac_bench_timing visits[AC_BENCH_MOST_VISITS];
  int visited;
  double flops, bytes; /* of one run on this device */
  double limit;        /* seconds that the roofs allow */
  ac_bench_bound bound;
  bool cached;
  bench_step step;
} bench_result;

typedef struct bench_row {
  bench_kind kind;
  char name[48];     /* the op or the model */
  char detail[256];  /* its shapes or settings */
  const char *model; /* the model of an op; "": none */
  ac_precision precision;
  bool backward, update;
  int64_t count; /* in a micro-batch, or an update */
  bench_result results[BENCH_DEVICES];
} bench_row;

typedef struct bench_report {
  ac_device *devices[BENCH_DEVICES];
  ac_bench_roofs roofs[BENCH_DEVICES];
  /* Bytes a second of a copy at the end; 0: not measured. Drifted: the two results are further
   * apart than their spreads, so the shares of the roof are doubtful. */
  double copy_at_end[BENCH_DEVICES];
  bool drifted[BENCH_DEVICES];
  int device_count;
  uint64_t footprint; /* that was asked for; 0: the default */
  int samples;        /* in a round */
  int visits;         /* of each product and op; 0: there are none */
  bench_row *rows;
  int count, capacity;
} bench_report;

/* A new row, zero but for what identifies it; NULL: no memory. Earlier rows may move. */
bench_row *bench_row_add(bench_report *report, bench_kind kind, const char *name,
                         const char *detail, ac_precision precision);

/* Whether any device has a result of it. */
bool bench_row_measured(const bench_row *row);
/* Results in all rows. */
int bench_count_results(const bench_report *report);
/* Whether "name precision detail" contains the filter; NULL lets everything through. */
bool bench_row_matches(const char *filter, const char *name, const char *precision,
                       const char *detail);

/* ---- tables on the standard output ----------------------------------------------------------- */

void bench_print_roofs(const bench_report *report);
void bench_print_header(const bench_report *report, bench_kind kind);
void bench_print_row(const bench_report *report, const bench_row *row);
/* What the words in the last column mean, if some row has them. */
void bench_print_notes(const bench_report *report);

#endif
