/* What a run's metrics tell last of the noise of each parameter's gradient, as a table. */
#ifndef TOOLS_REPORT_NOISE_LAYERS_H
#define TOOLS_REPORT_NOISE_LAYERS_H

#include "report/history.h"

#include <stdio.h>

/* Nothing of a run without. */
void noise_layers_table(FILE *page, const history *h);

#endif
