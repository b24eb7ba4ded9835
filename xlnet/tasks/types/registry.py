"""The task types by name; the flags for your own files choose the first one that fits."""

from xlnet.tasks.types.classification import CLASSIFICATION
from xlnet.tasks.types.multi_label import MULTI_LABEL
from xlnet.tasks.types.multiple_choice import MULTIPLE_CHOICE
from xlnet.tasks.types.ranking import RANKING
from xlnet.tasks.types.regression import REGRESSION
from xlnet.tasks.types.spans import SPANS
from xlnet.tasks.types.tagging import TAGGING

TASK_TYPES = {each.name: each for each in (
    SPANS, TAGGING, RANKING, REGRESSION, MULTIPLE_CHOICE, MULTI_LABEL, CLASSIFICATION)}
