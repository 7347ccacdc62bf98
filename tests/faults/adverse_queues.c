#include "faults/adverse_queues.h"

#include "core/error.h"

#include <string.h>

enum { MOST = 256 };

/* What is queued: a step, a move, or another call of the queue of steps. */
typedef struct job {
  ac_status (*call)(const struct job *job);
  ac_op_args args;
  ac_run_state run;
  void *handle, *data;
  const void *source;
  uint64_t bytes;
  uint64_t after[AC_QUEUE_COUNT]; /* what has to be done before it: so many jobs of each queue */
} job;

/* A ring of jobs, in order. */
typedef struct queue {
  job jobs[MOST];
  uint64_t queued, done;
  uint64_t after[AC_QUEUE_COUNT]; /* of what is queued from now on */
} queue;

static const ac_backend *real;
static ac_backend table;
static void *device_state;
static queue queues[AC_QUEUE_COUNT];
static ac_queue late;

/* ---- jobs ------------------------------------------------------------------------------------ */

static ac_status run_job(const job *j) {
  ac_op_args args = j->args;
  args.run = &j->run;
  return real->run(device_state, &args);
}
static ac_status zero_job(const job *j) {
  return real->zero(device_state, j->handle, j->bytes);
}
static ac_status copy_job(const job *j) {
  return real->copy(device_state, j->handle, j->source, j->bytes);
}
static ac_status in_job(const job *j) {
  return real->transfer_in(device_state, j->handle, j->source, j->bytes);
}
static ac_status out_job(const job *j) {
  return real->transfer_out(device_state, j->source, j->data, j->bytes);
}

/* Does jobs of a queue until so many are done, each to its end, with all that they wait for. */
static ac_status do_until(int index, uint64_t count) {
  queue *q = &queues[index];
  while (q->done < count) {
    const job *j = &q->jobs[q->done % MOST];
    for (int k = 0; k < AC_QUEUE_COUNT; k++)
      if (queues[k].done < j->after[k]) AC_TRY(do_until(k, j->after[k]));
    AC_TRY(j->call(j));
    AC_TRY(real->finish(device_state));
    q->done++;
  }
  return AC_OK;
}

static ac_status put(ac_queue index, const job *j) {
  queue *q = &queues[index];
  if (q->queued - q->done == MOST) AC_TRY(do_until((int)index, q->done + 1));
  job *mine = &q->jobs[q->queued++ % MOST];
  *mine = *j;
  memcpy(mine->after, q->after, sizeof q->after);
  return index == late ? AC_OK : do_until((int)index, q->queued);
}

/* ---- the table ------------------------------------------------------------------------------- */

static ac_status adverse_run(void *state, const ac_op_args *args) {
  (void)state;
  return put(AC_QUEUE_RUN, &(job){.call = run_job, .args = *args, .run = *args->run});
}
static ac_status adverse_run_all(void *state, const ac_op_args *args, int count) {
  for (int i = 0; i < count; i++) AC_TRY(adverse_run(state, &args[i]));
  return AC_OK;
}
static ac_status adverse_zero(void *state, void *handle, uint64_t bytes) {
  (void)state;
  return put(AC_QUEUE_RUN, &(job){.call = zero_job, .handle = handle, .bytes = bytes});
}
static ac_status adverse_copy(void *state, void *to, const void *from, uint64_t bytes) {
  (void)state;
  return put(AC_QUEUE_RUN, &(job){.call = copy_job, .handle = to, .source = from, .bytes = bytes});
}
static ac_status adverse_transfer_in(void *state, void *handle, const void *data, uint64_t bytes) {
  (void)state;
  return put(AC_QUEUE_IN, &(job){.call = in_job, .handle = handle, .source = data, .bytes = bytes});
}
static ac_status adverse_transfer_out(void *state, const void *handle, void *data, uint64_t bytes) {
  (void)state;
  return put(AC_QUEUE_OUT, &(job){.call = out_job, .source = handle, .data = data, .bytes = bytes});
}
static ac_status adverse_order(void *state, ac_queue first, ac_queue then) {
  (void)state;
  for (int k = 0; k < AC_QUEUE_COUNT; k++) {
    const uint64_t count = k == (int)first ? queues[k].queued : queues[first].after[k];
    if (count > queues[then].after[k]) queues[then].after[k] = count;
  }
  return AC_OK;
}

/* What the host does at once also has its place in the queue of steps. */
static ac_status catch_up(void) {
  for (int k = 0; k < AC_QUEUE_COUNT; k++)
    AC_TRY(do_until(k, k == AC_QUEUE_RUN ? queues[k].queued : queues[AC_QUEUE_RUN].after[k]));
  return AC_OK;
}

static ac_status adverse_upload(void *state, void *handle, uint64_t offset, const void *data,
                                uint64_t bytes) {
  AC_TRY(catch_up());
  return real->upload(state, handle, offset, data, bytes);
}
static ac_status adverse_download(void *state, const void *handle, uint64_t offset, void *data,
                                  uint64_t bytes) {
  AC_TRY(catch_up());
  return real->download(state, handle, offset, data, bytes);
}
static ac_status adverse_finish(void *state) {
  for (int i = 0; i < AC_QUEUE_COUNT; i++) AC_TRY(do_until(i, queues[i].queued));
  return real->finish(state);
}

void adverse_queues_wrap(ac_device *device, ac_queue delayed) {
  memset(queues, 0, sizeof queues);
  real = device->backend;
  device_state = device->state;
  late = delayed;
  table = *real;
  table.upload = adverse_upload;
  table.download = adverse_download;
  table.zero = adverse_zero;
  table.copy = adverse_copy;
  table.transfer_in = adverse_transfer_in;
  table.transfer_out = adverse_transfer_out;
  table.order = adverse_order;
  table.run = adverse_run;
  if (real->run_all) table.run_all = adverse_run_all;
  table.finish = adverse_finish;
  device->backend = &table;
}
