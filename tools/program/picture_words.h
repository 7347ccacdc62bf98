/* How pictures become samples, in the files of models that were trained on them: what a model is
 * given later is made in the same way. */
#ifndef TOOLS_PROGRAM_PICTURE_WORDS_H
#define TOOLS_PROGRAM_PICTURE_WORDS_H

#include "program/model_kind.h"

/* If the data are pictures, adds "accrue.pictures", such as "96 rgb bilinear 0.875", and the names
 * of classes. */
void picture_describe(const picture_flags *flags, model_metadata *metadata);

/* Takes from the file what flags do not say. Returns a status of message.h. */
int picture_adopt(picture_flags *flags, const options *o, const ac_model_file *file,
                  const char *path);

/* What pictures are at most, and their shape if no data say it: as flags have it, else as given. */
enum { PICTURE_MOST_SIDE = 16384 };
typedef struct picture_shape {
  int64_t channels, side;
} picture_shape;
picture_shape picture_assume(const picture_flags *flags, const options *o, int64_t channels,
                             int64_t side);

#endif
