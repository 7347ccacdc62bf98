#include "report/spikes.h"

#include "common/text.h"

#include <stdlib.h>
#include <string.h>

/* A run that was resumed from a state writes again what followed that state: the later line counts.
 */
bool spikes_take(spike_lines *s, const json_t *line) {
  const json_t *step = json_object_get(line, "step");
  const char *outcome = json_string_value(json_object_get(line, "outcome"));
  if (!json_is_integer(step) || json_integer_value(step) < 0 || !outcome) return false;
  const double at = (double)json_integer_value(step);
  while (s->count && s->lines[s->count - 1].step >= at) s->count--;
  if (s->count == s->room) {
    const size_t room = s->room ? 2 * s->room : 64;
    spike_line *grown = realloc(s->lines, room * sizeof *grown);
    if (!grown) return false;
    s->lines = grown;
    s->room = room;
  }
  s->lines[s->count++] = (spike_line){at, !strcmp(outcome, "skip"), !strcmp(outcome, "back")};
  return true;
}

void spikes_free(spike_lines *spikes) {
  free(spikes->lines);
}

void spikes_put(FILE *page, const spike_lines *s) {
  enum { SHOWN = 8 };
  size_t skipped = 0, back = 0;
  if (!s->count) return;
  fprintf(page, " %s step%s", text_count((int64_t)s->count).text,
          s->count == 1 ? " was a spike (" : "s were spikes (");
  for (size_t i = 0; i < s->count; i++) {
    skipped += s->lines[i].skipped;
    back += s->lines[i].went_back;
    if (i < SHOWN) fprintf(page, "%s%s", i ? ", " : "", text_number(s->lines[i].step).text);
  }
  fprintf(page, "%s), far beyond those before", s->count > SHOWN ? ", ..." : "");
  if (skipped) fprintf(page, "; %s skipped", text_count((int64_t)skipped).text);
  if (back)
    fprintf(page, "; training went back to a good state %s time%s", text_count((int64_t)back).text,
            back == 1 ? "" : "s");
  fputs(".", page);
}
