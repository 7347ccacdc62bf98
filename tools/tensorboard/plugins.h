/* Messages of TensorBoard's plugins, packed: what a run is set to, for the table of
 * hyperparameters, and which curves belong together, with the losses first. */
#ifndef TOOLS_TENSORBOARD_PLUGINS_H
#define TOOLS_TENSORBOARD_PLUGINS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct plugin_content {
  uint8_t *data; /* free it; NULL: no memory */
  size_t bytes;
} plugin_content;

/* Which settings and metrics the table has. `settings` are numbers, texts and booleans by name; of
 * these, `given` has the names of those that are shown at once. */
plugin_content plugin_experiment(const json_t *settings, const json_t *given, double now);
plugin_content plugin_session_start(const json_t *settings, double now);
plugin_content plugin_session_end(bool success, double now);

/* For the tab of custom scalars. */
plugin_content plugin_layout(void);

#endif
