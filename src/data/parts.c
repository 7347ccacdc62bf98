/* Parts of a dataset: slices, folds for k-fold cross-validation, shards for several processes. Each
 * maps its own indices to those of the whole, in constant memory and time. */
#include "core/error.h"
#include "data/dataset.h"

#include <stdlib.h>

typedef struct part {
  ac_dataset *whole;
  /* Sample i is sample begin + i * stride of the whole, but samples from `gap` on are `gap_length`
   * further on. */
  int64_t begin, stride, gap, gap_length;
  bool shuffled; /* that is a place in the fixed order of folds */
} part;

/* Any number would do, but another one makes other folds. */
#define FOLD_SEED UINT64_C(0x464F4C44)

static ac_sample_key key_of(const part *p, const ac_sample_key *key) {
  ac_sample_key inner = *key;
  inner.index = p->begin + key->index * p->stride;
  if (inner.index >= p->gap) inner.index += p->gap_length;
  if (p->shuffled) inner.index = ac_shuffle(FOLD_SEED, 0, inner.index, p->whole->count);
  return inner;
}

static ac_status read_part(void *user, const ac_sample_key *key, void *const *fields) {
  const part *p = user;
  const ac_sample_key inner = key_of(p, key);
  return ac_dataset_read(p->whole, &inner, fields);
}

static ac_status trace_part(const void *user, const ac_sample_key *key,
                            struct ac_polygon *polygon) {
  const part *p = user;
  const ac_sample_key inner = key_of(p, key);
  return ac_dataset_trace(p->whole, &inner, polygon);
}

static ac_status make_part(ac_dataset **dataset, const part *description, int64_t count) {
  part *made = malloc(sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "dataset: no memory for its description");
  *made = *description;
  if (!made->gap_length) made->gap = INT64_MAX;
  ac_status status = ac_dataset_create_over(dataset, made->whole, count, read_part, free, made);
  if (status != AC_OK) free(made);
  else (*dataset)->trace = trace_part;
  return status;
}

ac_status ac_dataset_slice(ac_dataset **dataset, ac_dataset *whole, int64_t begin, int64_t end) {
  AC_CREATES(dataset);
  AC_REQUIRE(whole);
  if (begin < 0 || begin >= end || end > whole->count)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: [%lld, %lld) is not a part of %lld samples",
                   (long long)begin, (long long)end, (long long)whole->count);
  return make_part(dataset, &(part){.whole = whole, .begin = begin, .stride = 1}, end - begin);
}

int64_t ac_kfold_begin(int64_t count, int64_t pieces, int64_t i) {
  int64_t larger = count % pieces;
  return count / pieces * i + (i < larger ? i : larger);
}

ac_status ac_kfold_check(int64_t fold, int64_t folds, int64_t count, const char *of_what) {
  if (folds < 2)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "dataset: %lld folds; at least two are needed to train and validate",
                   (long long)folds);
  if (fold < 1 || fold > folds)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: there is no fold %lld; %lld folds are 1 to %lld",
                   (long long)fold, (long long)folds, (long long)folds);
  if (folds > count)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: %lld %s leave some of %lld folds empty",
                   (long long)count, of_what, (long long)folds);
  return AC_OK;
}

ac_status ac_dataset_fold(ac_dataset **train, ac_dataset **validation, ac_dataset *whole,
                          int64_t fold, int64_t folds) {
  AC_CREATES(train);
  AC_CREATES(validation);
  AC_REQUIRE(whole);
  AC_TRY(ac_kfold_check(fold, folds, whole->count, "samples"));
  int64_t begin = ac_kfold_begin(whole->count, folds, fold - 1);
  int64_t held = ac_kfold_begin(whole->count, folds, fold) - begin;
  const part rest = {
      .whole = whole, .stride = 1, .gap = begin, .gap_length = held, .shuffled = true};
  const part own = {.whole = whole, .begin = begin, .stride = 1, .shuffled = true};
  ac_dataset *training;
  AC_TRY(make_part(&training, &rest, whole->count - held));
  ac_status status = make_part(validation, &own, held);
  if (status == AC_OK) *train = training;
  else ac_dataset_free(training);
  return status;
}

ac_status ac_dataset_shard(ac_dataset **dataset, ac_dataset *whole, int64_t rank, int64_t ranks) {
  AC_CREATES(dataset);
  AC_REQUIRE(whole);
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: there is no rank %lld among %lld, counted from 0",
                   (long long)rank, (long long)ranks);
  if (rank >= whole->count)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: %lld samples leave nothing for rank %lld of %lld",
                   (long long)whole->count, (long long)rank, (long long)ranks);
  int64_t count = whole->count / ranks + (rank < whole->count % ranks);
  return make_part(dataset, &(part){.whole = whole, .begin = rank, .stride = ranks}, count);
}
