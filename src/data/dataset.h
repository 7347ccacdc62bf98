/* What a dataset is inside: a reading function with its state, and a description of its fields.
 * Every kind of dataset is this one structure; the kinds differ in `read`, `close` and `user`. */
#ifndef AC_DATA_DATASET_H
#define AC_DATA_DATASET_H

#include <accrue/dataset.h>

#include "core/platform/threads.h"

struct ac_polygon; /* data/picture_geometry.h */

struct ac_dataset {
  int64_t count;
  int64_t classes;        /* 0: unknown */
  int64_t image_shape[3]; /* channels, height, width of the field "images"; zeros: unknown */
  int field_count;
  ac_field fields[AC_MAX_FIELDS]; /* names point into `names` */
  ac_read_sample read;
  void (*close)(void *user);
  void *user;
  uint64_t bytes; /* of buffers that `read` needs, all threads together; 0: none, or unknown */
  /* Takes a polygon of a sample's picture to where it is in the sample; NULL: it is not known. */
  ac_status (*trace)(const void *user, const ac_sample_key *key, struct ac_polygon *polygon);
  bool explains;    /* `read` is the library's own, so when it fails it has set the last error */
  ac_monitor *lock; /* held while `read` runs; NULL: it may run in several threads at once */
  int process;      /* that in which `read` runs with the lock held; 0: it does not */
  char names[];
};

/* Like ac_dataset_from_callback, for the library's own readers, which several threads may use. */
ac_status ac_dataset_create(ac_dataset **dataset, const ac_callback_dataset_desc *desc,
                            int64_t classes);

/* A dataset of `count` samples that are made of those of `whole`: the same fields, classes and
 * image shape. If it fails, `user` remains the caller's. */
ac_status ac_dataset_create_over(ac_dataset **dataset, const ac_dataset *whole, int64_t count,
                                 ac_read_sample read, void (*close)(void *user), void *user);

/* A dataset with all that `whole` has and one field more, which comes last. If it fails, `user`
 * remains the caller's. */
ac_status ac_dataset_with_field(ac_dataset **dataset, const ac_dataset *whole, ac_field field,
                                ac_read_sample read, void (*close)(void *user), void *user);
/* The position of the i32 field "labels" of one element, or -1. */
int ac_dataset_label_field(const ac_dataset *dataset);

/* K-fold cross-validation. Whether there is fold `fold` of 1 .. `folds` of so many samples or
 * tokens, none of them empty. */
ac_status ac_kfold_check(int64_t fold, int64_t folds, int64_t count, const char *of_what);
/* Where piece i of `pieces` begins. The sizes of pieces differ by at most one. */
int64_t ac_kfold_begin(int64_t count, int64_t pieces, int64_t i);

/* ac_dataset_read on behalf of `owner`: whoever has the samples written to its buffers, and must
 * not be used meanwhile. */
ac_status ac_dataset_read_for(const void *owner, ac_dataset *dataset, const ac_sample_key *key,
                              void *const *fields);
/* Whether the calling thread is within a `read` on behalf of this owner. */
bool ac_dataset_is_read_for(const void *owner);

/* What `trace` of a dataset does, or a refusal. */
ac_status ac_dataset_trace(const ac_dataset *dataset, const ac_sample_key *key,
                           struct ac_polygon *polygon);

/* The position of a field, or -1. */
int ac_dataset_find_field(const ac_dataset *dataset, const char *name);

#endif
