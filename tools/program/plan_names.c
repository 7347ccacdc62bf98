#include "program/plan_names.h"

#include "common/json_text.h"
#include "common/message.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct row {
  ac_plan_parameter parameter;
  int64_t count;
  int group; /* -1: none */
  char shape[96];
  char step[48]; /* in words */
} row;

static int group_of(const ac_trainer_desc *trainer, const char *name) {
  for (int g = 0; g < trainer->group_count; g++)
    if (ac_parameter_group_matches(&trainer->groups[g], name)) return g;
  return -1;
}

/* What the optimizer does with it. */
static void describe_step(row *r) {
  const ac_plan_parameter *p = &r->parameter;
  if (p->frozen) snprintf(r->step, sizeof r->step, "frozen");
  else if (!p->trained) snprintf(r->step, sizeof r->step, "not used");
  else snprintf(r->step, sizeof r->step, "%s%s", p->step, p->state == AC_U8 ? ", 8 bits" : "");
}

static bool read_row(const setup *s, int index, row *r) {
  if (ac_plan_get_parameter(s->plan, index, &r->parameter) != AC_OK) return false;
  const ac_tensor_info *info = &r->parameter.tensor;
  size_t used = 0;
  r->count = 1;
  r->shape[0] = 0;
  for (int d = 0; d < info->rank; d++) {
    r->count *= info->shape[d];
    used += (size_t)snprintf(r->shape + used, sizeof r->shape - used, "%s%" PRId64, d ? " x " : "",
                             info->shape[d]);
  }
  r->group = group_of(&s->trainer, info->name);
  describe_step(r);
  return true;
}

static void say_unmatched(const setup *s) {
  for (int g = 0; g < s->trainer.group_count; g++) {
    bool any = false;
    row r;
    for (int i = 0; !any && read_row(s, i, &r); i++)
      any = ac_parameter_group_matches(&s->trainer.groups[g], r.parameter.tensor.name);
    if (!any) say("--group %s matches no parameter", s->flags.groups.list.items[g]);
  }
}

int plan_names_print(const setup *s) {
  const bool groups = s->trainer.group_count > 0;
  row r;
  int width = 4, rows = 0;
  for (; read_row(s, rows, &r); rows++)
    if ((int)strlen(r.parameter.tensor.name) > width) width = (int)strlen(r.parameter.tensor.name);
  printf("%-*s  %16s  %13s  %10s  %10s  %s%s\n", width, "name", "shape", "weights", "bytes",
         "state", "stepped by", groups ? "        group" : "");
  for (int i = 0; i < rows && read_row(s, i, &r); i++) {
    message_put(stdout, "%-*s  %16s  %13s  %10s  %10s  ", width, r.parameter.tensor.name, r.shape,
                text_count(r.count).text, text_bytes(r.parameter.bytes).text,
                text_bytes(r.parameter.state_bytes).text);
    if (!groups) printf("%s\n", r.step);
    else
      message_put(stdout, "%-16s  %s\n", r.step,
                  r.group < 0 ? "-" : s->flags.groups.list.items[r.group]);
  }
  say_unmatched(s);
  return STATUS_DONE;
}

static json_t *shape_of(const ac_tensor_info *info) {
  json_t *shape = json_array();
  for (int d = 0; d < info->rank; d++)
    json_array_append_new(shape, json_integer((json_int_t)info->shape[d]));
  return shape;
}

json_t *plan_names_json(const setup *s) {
  json_t *list = json_array();
  row r;
  for (int i = 0; read_row(s, i, &r); i++) {
    const ac_plan_parameter *p = &r.parameter;
    const char *group = r.group < 0 ? NULL : s->flags.groups.list.items[r.group];
    json_array_append_new(
        list,
        json_pack("{s:s, s:o, s:I, s:s, s:I, s:I, s:b, s:b, s:s, s:s, s:o}", "name", p->tensor.name,
                  "shape", shape_of(&p->tensor), "count", (json_int_t)r.count, "dtype",
                  p->blocks ? ac_blocks_name(p->blocks) : ac_dtype_name(p->tensor.dtype), "bytes",
                  (json_int_t)p->bytes, "state_bytes", (json_int_t)p->state_bytes, "frozen",
                  p->frozen ? 1 : 0, "trained", p->trained ? 1 : 0, "step", p->step, "state",
                  p->state == AC_U8 ? "8bit" : "f32", "group",
                  group ? json_text_name(group) : json_null()));
  }
  return list;
}
