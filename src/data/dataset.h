/* What a dataset is inside: a reading function with its state, and a description of its fields.
 * Every kind of dataset is this one structure; the kinds differ in `read` and `user` alone. */
#ifndef AC_DATA_DATASET_H
#define AC_DATA_DATASET_H

#include <accrue/dataset.h>

struct ac_dataset {
  int64_t count;
  int64_t classes; /* 0: unknown */
  int field_count;
  ac_field fields[AC_MAX_FIELDS]; /* names point into `names` */
  ac_read_sample read;
  void (*close)(void *user);
  void *user;
  bool explains; /* `read` is the library's own, so when it fails it has set the last error */
  char names[];
};

/* As ac_dataset_from_callback, for the library's own readers. */
ac_status ac_dataset_create(ac_dataset **dataset, const ac_callback_dataset_desc *desc,
                            int64_t classes);

#endif
