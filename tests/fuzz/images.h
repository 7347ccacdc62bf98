/* What must hold for a dataset of labelled images, however it was made. */
#ifndef AC_TESTS_FUZZ_IMAGES_H
#define AC_TESTS_FUZZ_IMAGES_H

#include "fuzz.h"

#include <accrue/dataset.h>
#include <stdlib.h>

static inline void check_images(ac_status status, ac_dataset *dataset) {
  if (status != AC_OK) {
    FUZZ_CHECK(!dataset);
    fuzz_check_sentence();
    return;
  }
  int64_t elements = ac_dataset_field(dataset, 0)->elements, shape[3];
  FUZZ_CHECK(ac_dataset_image_shape(dataset, shape));
  FUZZ_CHECK(shape[0] * shape[1] * shape[2] == elements);
  float *pixels = malloc((size_t)elements * sizeof *pixels);
  int32_t label;
  for (int64_t i = 0; i < ac_dataset_count(dataset) && i < 100; i++) {
    const ac_sample_key key = {.index = ac_dataset_count(dataset) - 1 - i};
    FUZZ_CHECK(ac_dataset_read(dataset, &key, (void *const[]){pixels, &label}) == AC_OK);
    FUZZ_CHECK(label >= 0 && label < ac_dataset_classes(dataset));
    for (int64_t p = 0; p < elements; p++) FUZZ_CHECK(pixels[p] >= 0 && pixels[p] <= 1);
  }
  free(pixels);
  ac_dataset_free(dataset);
}

#endif
