/* What changes images that train each time they are read, and what the loss counts: mixtures of
 * samples, weights of classes. */
#include "common/message.h"
#include "program/data.h"

#include <stdlib.h>

static bool changes_anything(const ac_augmentation *a) {
  return a->shift || a->flip || a->rotation > 0 || a->scaling > 0 || a->erase_probability > 0;
}

static int augment(train_data *data, const options *o) {
  ac_augmentation *a = &data->augmentation;
  if (data->all) {
    const int status = data_change_pictures(data);
    if (status != STATUS_CONTINUE) return status;
    if (!options_given(o, "shift")) a->shift = 0;
    if (!options_given(o, "rotation")) a->rotation = 0;
    if (!options_given(o, "scaling")) a->scaling = 0;
  }
  if (!changes_anything(&data->augmentation)) return STATUS_CONTINUE;
  ac_dataset **from = data->all ? &data->changed : &data->plain;
  *from = data->train;
  data->train = NULL;
  const ac_status status = ac_dataset_augmented(&data->train, *from, &data->augmentation);
  return status == AC_OK ? STATUS_CONTINUE : fail_setup(status);
}

/* ---- what the loss counts -------------------------------------------------------------------- */

/* Moves what trains and what validates to where others read it. */
static void set_aside(train_data *data) {
  data->unmixed = data->train;
  data->judged = data->validation;
  data->train = data->validation = NULL;
}

/* Samples that validate are not mixed, but have targets, which the loss is made of. */
static int mix(train_data *data) {
  const ac_mixing labels = {.classes = data->mixing.classes};
  set_aside(data);
  ac_status status = ac_dataset_mixed(&data->train, data->unmixed, &data->mixing);
  if (status == AC_OK && data->judged)
    status = ac_dataset_mixed(&data->validation, data->judged, &labels);
  return status == AC_OK ? STATUS_CONTINUE : fail_setup(status);
}

/* Samples that validate count alike, so that their loss can be compared with that of other runs. */
static int weigh(train_data *data) {
  const ac_pictures *list = data->training ? data->training : data->all;
  const int64_t classes = ac_pictures_classes(list);
  float *weights = malloc((size_t)classes * sizeof *weights);
  if (!weights) return fail("out of memory");
  set_aside(data);
  ac_status status = ac_pictures_class_weights(list, weights);
  if (status == AC_OK) status = ac_dataset_weighted(&data->train, data->unmixed, classes, weights);
  for (int64_t c = 0; c < classes; c++) weights[c] = 1;
  if (status == AC_OK && data->judged)
    status = ac_dataset_weighted(&data->validation, data->judged, classes, weights);
  free(weights);
  return status == AC_OK ? STATUS_CONTINUE : fail_setup(status);
}

int data_change(train_data *data, const options *o) {
  if (!data->train) return STATUS_CONTINUE;
  const int status = augment(data, o);
  if (status != STATUS_CONTINUE) return status;
  if (data->mixing.mixup > 0 || data->mixing.cutmix > 0) return mix(data);
  return data->class_weights ? weigh(data) : STATUS_CONTINUE;
}

ac_dataset *data_plain(const train_data *data) {
  return data->plain ? data->plain : data->unmixed ? data->unmixed : data->train;
}

const ac_pictures *data_list_of(const train_data *data, const ac_dataset *dataset) {
  const bool validates = dataset == data->validation || dataset == data->judged;
  if (dataset == data->whole) return data->all;
  if (validates && data->validating) return data->validating;
  return data->training && !validates ? data->training : data->all;
}
