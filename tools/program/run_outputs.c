#include "program/run_outputs.h"

#include "common/message.h"
#include "common/outputs.h"

#include <string.h>
#include <sys/stat.h>

/* NULL: the flag is not given, or has no effect. */
static const char *path_of(const setup *s, const char *flag) {
  const option *row = options_find(&s->options, flag);
  if (!row || row->ignored || row->kind != OPTION_TEXT) return NULL;
  const char *path = *(const char **)row->value;
  return path && *path ? path : NULL;
}

static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int check_inputs(const setup *s, const char *flag, const char *path) {
  static const char *const inputs[] = {"data", "images", "labels", "init", "policy", "config"};
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
    const char *input = path_of(s, inputs[i]);
    if (!input || !outputs_same(input, path)) continue;
    if (!strcmp(flag, "out") && is_folder(path))
      continue; /* images in the run's folder are read by name */
    return fail_usage("--%s %s is what --%s names; give another path", flag, path, inputs[i]);
  }
  return STATUS_CONTINUE;
}

static int check_file(const setup *s, const char *flag, output_kind kind) {
  const char *path = path_of(s, flag);
  if (!path) return STATUS_CONTINUE;
  const int status = check_inputs(s, flag, path);
  if (status != STATUS_CONTINUE) return status;
  /* Files that are added to are checked later, when the state says which part is the run's. */
  if (kind == OUTPUT_METRICS && s->flags.resume && !outputs_holds(path, kind))
    return STATUS_CONTINUE;
  return outputs_check_file(flag, path, kind, path_of(s, "out"));
}

static int check_tensorboard(const setup *s) {
  const char *path = path_of(s, "tensorboard"), *out = path_of(s, "out");
  if (!path) return STATUS_CONTINUE;
  const int status = check_inputs(s, "tensorboard", path);
  if (status != STATUS_CONTINUE || is_folder(path)) return status;
  return outputs_check_name("tensorboard", path, out);
}

int run_outputs_check(const setup *s) {
  const char *out = path_of(s, "out");
  int status = check_file(s, "metrics", OUTPUT_METRICS);
  if (status == STATUS_CONTINUE) status = check_file(s, "svg", OUTPUT_SVG);
  if (status == STATUS_CONTINUE) status = check_tensorboard(s);
  if (status != STATUS_CONTINUE || !out) return status;
  status = check_inputs(s, "out", out);
  return status == STATUS_CONTINUE ? outputs_check_folder(out) : status;
}

void run_outputs_leave_out(setup *s) {
  static const char *const flags[] = {"out", "metrics", "tensorboard", "svg"};
  for (int i = 0; i < LEFT_OUT_OUTPUTS; i++) s->data.left_out.outputs[i] = path_of(s, flags[i]);
}
