#include "program/image_origin.h"

#include "common/json_file.h"
#include "models/image_net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whether a list of three numbers is this one. */
static bool is_list(const json_t *list, const double expected[3]) {
  if (json_array_size(list) != 3) return false;
  for (size_t i = 0; i < 3; i++)
    if (!(fabs(json_number_value(json_array_get(list, i)) - expected[i]) < 1e-4)) return false;
  return true;
}

static int pixels_of(const json_t *config) {
  static const double means[][3] = {{0.485, 0.456, 0.406}, {0.5, 0.5, 0.5}},
                      deviations[][3] = {{0.229, 0.224, 0.225}, {0.5, 0.5, 0.5}};
  static const int words[] = {IMAGE_PIXELS_IMAGENET, IMAGE_PIXELS_HALF};
  const json_t *trained = json_object_get(config, "pretrained_cfg");
  for (int i = 0; i < 2; i++)
    if (is_list(json_object_get(trained, "mean"), means[i]) &&
        is_list(json_object_get(trained, "std"), deviations[i]))
      return words[i];
  return -1;
}

image_origin image_origin_of(const char *path) {
  image_origin origin = {.pixels = -1};
  char config[4200];
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *text = NULL;
  const int length = snprintf(config, sizeof config, "%.*sconfig.json", (int)(name - path), path);
  json_t *read =
      length > 0 && (size_t)length < sizeof config ? json_file_load(config, 0, NULL) : NULL;
  text = json_string_value(json_object_get(read, "architecture"));
  if (text) origin.pixels = pixels_of(read);
  const char *dot = text ? NULL : strrchr(name, '.');
  const int used = (int)(dot ? (size_t)(dot - name) : strlen(text ? text : name));
  snprintf(origin.architecture, sizeof origin.architecture, "%.*s", used, text ? text : name);
  /* What downloads call all files alike says nothing. */
  if (!text && (!strncmp(name, "model", 5) || !strncmp(name, "pytorch_model", 13)))
    origin.architecture[0] = 0;
  json_decref(read);
  return origin;
}
