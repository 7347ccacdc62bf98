#include "program/picture_words.h"

#include "common/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const filters[] = {"bilinear", "bicubic"};

static bool is_utf8(const char *text) {
  json_t *value = json_string(text); /* which takes nothing else */
  json_decref(value);
  return value;
}

/* Each on a line, if they fit in a model's description. */
static void describe_classes(const ac_pictures *list, model_metadata *metadata) {
  char text[CLASS_NAMES_BYTES];
  size_t used = 0;
  for (int64_t c = 0; c < ac_pictures_classes(list); c++) {
    const char *name = ac_pictures_class_name(list, c);
    const size_t length = strlen(name) + (c > 0);
    if (length >= sizeof text - used || strchr(name, '\n') || !is_utf8(name)) return;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", c ? "\n" : "", name);
  }
  if (used) model_metadata_add(metadata, "accrue.class_names", "%s", text);
}

void picture_describe(const picture_flags *flags, model_metadata *metadata) {
  if (!flags->list) return;
  describe_classes(flags->list, metadata);
  model_metadata_add(metadata, "accrue.pictures", "%" PRId64 " %s %s %.17g", flags->size,
                     flags->grey ? "grey" : "rgb", filters[flags->filter], flags->crop_share);
}

int picture_adopt(picture_flags *flags, const options *o, const ac_model_file *file,
                  const char *path) {
  flags->class_names = ac_model_file_metadata(file, "accrue.class_names");
  const char *text = ac_model_file_metadata(file, "accrue.pictures");
  if (!text) return STATUS_CONTINUE;
  int64_t size;
  char colours[8], filter[16];
  double share;
  int end = 0;
  const int count =
      sscanf(text, "%" SCNd64 " %7s %15s %lf%n", &size, colours, filter, &share, &end);
  const bool grey = count == 4 && !strcmp(colours, "grey"),
             cubic = count == 4 && !strcmp(filter, filters[1]);
  if (count != 4 || text[end] || size < 1 || size > PICTURE_MOST_SIDE ||
      !(share >= 0.1 && share <= 1) || (!grey && strcmp(colours, "rgb") != 0) ||
      (!cubic && strcmp(filter, filters[0]) != 0))
    return fail("%s has a damaged description of its pictures", path);
  if (!options_given(o, "size")) flags->size = size;
  if (!options_given(o, "grey")) flags->grey = grey;
  if (!options_given(o, "filter")) flags->filter = cubic;
  if (!options_given(o, "crop-share")) flags->crop_share = share;
  return STATUS_CONTINUE;
}

picture_shape picture_assume(const picture_flags *flags, const options *o, int64_t channels,
                             int64_t side) {
  return (picture_shape){flags->grey ? 1 : channels, options_given(o, "size") ? flags->size : side};
}
