/* Networks of inverted residuals: MobileNet V2 and V3. EfficientNet is in image_net.h. */
#ifndef TOOLS_MODELS_INVERTED_H
#define TOOLS_MODELS_INVERTED_H

#include "models/image_net.h"

void inverted_mobilenet(ac_graph *graph, const image_net *config);
/* The name of the layer before the loss. */
const char *inverted_head(const image_net *net, bool efficientnet);

#endif
