/* A loader reads effective batches ahead while the device works on the one before.
 *
 * The batches are the windows of data/windows.h. Sample i of a batch always lands in place i, and
 * what it holds depends on its key alone, so the number of threads changes nothing but the time.
 * All memory is allocated when a loader is made. A loader belongs to one thread at a time, apart
 * from its own, and to the process that made it: after a fork its threads are the parent's, and in
 * the child a loader with threads refuses every call. */
#ifndef AC_DATA_LOADER_H
#define AC_DATA_LOADER_H

#include "data/windows.h"

typedef struct ac_loader ac_loader;

typedef struct ac_loader_desc {
  int64_t batch;   /* samples; the largest of the stages, if there are any */
  int64_t epochs;  /* after which there are no more batches; 0: no end */
  int64_t batches; /* likewise, counted from where the loader begins; 0: no end */
  int threads;     /* that read ahead; 0: batches are read when they are asked for */
  int depth;       /* batches in memory, the caller's included; 0: 2; without threads always 1 */
  bool no_shuffle;
  uint64_t seed;
  ac_epoch_end epoch_end;
  const ac_batch_stage *stages; /* as in ac_windows, at most AC_MAX_BATCH_STAGES; copied */
  int stage_count;
  int rank, ranks;            /* that share out each batch; this one's samples alone are read */
  const void *owner;          /* samples are read for it (ac_dataset_read_for) */
  bool unused[AC_MAX_FIELDS]; /* fields that nobody needs; they have no memory for batches */
  /* Called by the caller's thread several times a second while it waits for a batch, and before
   * each sample that it reads itself; what it fails with is what the wait fails with. NULL: nothing
   * is. */
  ac_status (*meanwhile)(void *user);
  void *user;
} ac_loader_desc;

enum { AC_LOADER_MAX_THREADS = 64, AC_LOADER_MAX_DEPTH = 64 };

/* Bytes that a loader allocates for samples, and all that grows with them:
 *
 *   depth x (sum over the fields in use of share x bytes of a sample)
 *   + (threads + 1) x bytes of a sample of the largest unused field
 *
 * with the largest share of a batch. Each field's share, and the sample, are rounded up to
 * AC_LINE_BYTES (align.h). */
ac_status ac_loader_bytes(const ac_dataset *dataset, const ac_loader_desc *desc, uint64_t *bytes);

/* How a loader of the dataset lays its batches. */
ac_windows ac_loader_windows(const ac_dataset *dataset, const ac_loader_desc *desc);

/* Begins with epoch 0. The threads begin to read at once; the dataset must outlive the loader, and
 * others may read it meanwhile. */
ac_status ac_loader_create(ac_loader **loader, ac_dataset *dataset, const ac_loader_desc *desc);

/* At any time; waits for the few samples that are being read just now. NULL: nothing. */
void ac_loader_free(ac_loader *loader);

typedef struct ac_batch {
  ac_window window;
  void *fields[AC_MAX_FIELDS]; /* its share of samples one after another; NULL: unused */
  double wait_seconds;         /* until it was complete: what reading has cost the caller */
} ac_batch;

/* The next batch; it is the caller's until the next call. A caller that has to wait for it helps to
 * read it. If a sample of it could not be read, this fails with the status and the message of the
 * first such sample, and keeps failing until the loader is told to seek. */
ac_status ac_loader_next(ac_loader *loader, ac_batch *batch);

/* Goes on from there; `batches` counts from here again. */
ac_status ac_loader_seek(ac_loader *loader, ac_place place);
/* The same with other stages, which are copied, and another number of batches. */
ac_status ac_loader_lay(ac_loader *loader, ac_place place, const ac_batch_stage *stages,
                        int stage_count, int64_t batches);

#endif
