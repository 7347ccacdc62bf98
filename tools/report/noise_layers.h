/* The last estimates of the noise of each parameter's gradient in a run's metrics, as a table. */
#ifndef TOOLS_REPORT_NOISE_LAYERS_H
#define TOOLS_REPORT_NOISE_LAYERS_H

#include "report/history.h"

#include <stdio.h>

/* Nothing for a run without estimates. */
void noise_layers_table(FILE *page, const history *h);

#endif
