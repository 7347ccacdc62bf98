/* Which samples form which window: windows are laid over the epochs one after another, and the
 * order within an epoch is that of ac_shuffle. So the samples of a window depend on where it
 * begins, and with a schedule of batches also on what came before it. */
#ifndef AC_DATA_WINDOWS_H
#define AC_DATA_WINDOWS_H

#include <accrue/batches.h>
#include <accrue/dataset.h>

/* What follows the last whole window of an epoch. */
typedef enum ac_epoch_end {
  AC_EPOCH_END_SHORT = 0, /* a smaller window */
  AC_EPOCH_END_CARRY,     /* one that goes on in the next epoch; the last of all may be smaller */
  AC_EPOCH_END_DROP       /* the next epoch */
} ac_epoch_end;

typedef struct ac_windows {
  int64_t count;  /* samples of the dataset */
  int64_t batch;  /* samples of a whole window, unless stages say so */
  int64_t epochs; /* after which there are no more windows; 0: no end */
  ac_epoch_end epoch_end;
  bool no_shuffle;
  uint64_t seed;
  const ac_batch_stage *stages; /* checked; must outlive this */
  int stage_count;              /* 0: all windows are of `batch` */
  int rank, ranks;              /* that share out each window; 0 ranks: one */
} ac_windows;

/* All counted from 0. */
typedef struct ac_place {
  int64_t epoch, position;
  int64_t windows, samples; /* of windows on the way there */
} ac_place;

typedef struct ac_window {
  ac_place begin, next; /* of its first sample, and where the next window begins */
  int64_t count;        /* samples; 0: there are no more windows */
  int64_t first, share; /* those of this rank: `share` samples, which may be 0, from `first` on */
} ac_window;

/* Refuses stages that make no sense for windows of at most `most` samples. */
ac_status ac_batch_stages_check(const ac_batch_stage *stages, int count, int64_t most);
/* The largest batch of all stages, or windows->batch without any. */
int64_t ac_windows_largest(const ac_windows *windows);
/* Samples of a whole window that begins there. */
int64_t ac_windows_batch(const ac_windows *windows, ac_place at);

/* The first window from there on. */
ac_window ac_windows_lay(const ac_windows *windows, ac_place from);

/* How many windows there are in all, where epochs end them. It walks through all stages but the
 * last. */
int64_t ac_windows_total(const ac_windows *windows);

/* Sample number `sample` of a window that begins there. */
ac_sample_key ac_windows_key(const ac_windows *windows, ac_place begin, int64_t sample);

#endif
