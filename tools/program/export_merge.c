/* Parameters with the adapter added, row by row. */
#include "program/export_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A layer has an adapter if the description names it: an adapter's own names each. */
static bool has_adapter(const exporter *e, const char *name) {
  for (int i = 0; e->adapter && i < e->lora.module_count; i++) {
    const size_t length = strlen(e->lora.modules[i].name);
    if (!strncmp(e->lora.modules[i].name, name, length) && !strcmp(name + length, ".weight"))
      return true;
  }
  return false;
}

/* All are other than in the file if the base was kept in blocks. */
bool export_is_changed(void *user, const char *name) {
  const exporter *e = user;
  return e->blocks || has_adapter(e, name);
}

static ac_status find_columns(const exporter *e, const char *name, int64_t *columns) {
  ac_tensor_info info;
  for (int i = 0; i < ac_graph_parameter_count(e->trained.graph); i++) {
    const ac_status status = ac_graph_parameter(e->trained.graph, i, &info);
    if (status != AC_OK) return status;
    if (strcmp(info.name, name) != 0) continue;
    *columns = info.shape[info.rank - 1];
    return AC_OK;
  }
  return AC_ERROR_ARGUMENT;
}

static ac_status merge_row(exporter *e, const char *name, int64_t row, int64_t columns) {
  const bool in_out = !strcmp(e->info.family, "gpt2");
  if (columns > e->row_room) {
    free(e->row);
    e->row = malloc((size_t)columns * sizeof *e->row);
    e->row_room = e->row ? columns : 0;
    if (!e->row) return AC_ERROR_MEMORY;
  }
  const ac_status status =
      ac_session_get_parameter(e->trained.session, name, row * columns, columns, e->row);
  if (status != AC_OK) return status;
  return ac_adapter_merge(e->adapter, name, in_out ? AC_IN_OUT : AC_OUT_IN, row, 1, columns,
                          e->row);
}

ac_status export_read_merged(void *user, const char *name, int64_t first, int64_t count,
                             float *data) {
  exporter *e = user;
  int64_t columns = 1;
  if (!has_adapter(e, name))
    return ac_session_get_parameter(e->trained.session, name, first, count, data);
  ac_status status = find_columns(e, name, &columns);
  for (int64_t done = 0; done < count && status == AC_OK;) {
    const int64_t row = (first + done) / columns, begin = (first + done) % columns;
    const int64_t part = count - done < columns - begin ? count - done : columns - begin;
    status = merge_row(e, name, row, columns);
    if (status == AC_OK) memcpy(data + done, e->row + begin, (size_t)part * sizeof *data);
    done += part;
  }
  return status;
}
