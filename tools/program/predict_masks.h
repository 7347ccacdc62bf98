/* `accrue predict` of models that tell the class of each pixel: a mask for each picture. */
#ifndef TOOLS_PROGRAM_PREDICT_MASKS_H
#define TOOLS_PROGRAM_PREDICT_MASKS_H

#include "program/saved_model.h"

/* Writes the masks of all samples below the folder `out`, each with the path that its picture has
 * below `data`, and tells of each. Files that are there are refused, unless `overwrite`. A status
 * of message.h. */
int predict_masks(saved_model *m, const char *data, const char *out, bool overwrite);

/* The file of a sample's picture, or NULL. */
const char *predict_file(const saved_model *m, int64_t sample);

#endif
