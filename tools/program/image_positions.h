/* Position embeddings of vision transformers for images of another size than those that the weights
 * were trained on. */
#ifndef TOOLS_PROGRAM_IMAGE_POSITIONS_H
#define TOOLS_PROGRAM_IMAGE_POSITIONS_H

#include <accrue/accrue.h>

typedef struct patch_grid {
  int64_t rows, columns; /* of patches */
} patch_grid;

/* Reads the table [1, 1 + rows * columns, width] of `file` for the grid `from`, with the vector of
 * the class first, and makes one for the grid `to`: the first vector stays, the others are
 * resampled with the antialiased cubic filter, as timm's resample_abs_pos_embed does. *table is
 * freed by the caller. A status of message.h. */
int image_positions_resample(float **table, ac_model_file *file, const char *path, const char *name,
                             patch_grid from, patch_grid to, int64_t width);

#endif
