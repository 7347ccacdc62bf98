#include "program/model_path.h"

#include "common/message.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

int model_path(const char *flag, const char *given, char path[MODEL_PATH_BYTES]) {
  struct stat info;
  const bool folder = stat(given, &info) == 0 && S_ISDIR(info.st_mode);
  const int length =
      snprintf(path, MODEL_PATH_BYTES, "%s%s", given, folder ? "/model.safetensors" : "");
  if (length > 0 && length < MODEL_PATH_BYTES) return STATUS_CONTINUE;
  return fail_usage("--%s is not a path", flag);
}
