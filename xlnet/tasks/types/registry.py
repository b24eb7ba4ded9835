"""The kinds of tasks by name.

Flags of own files choose the first one that says it is asked for.
"""

from xlnet.tasks.types.classification import Classification
from xlnet.tasks.types.multi_label import MultiLabel
from xlnet.tasks.types.multiple_choice import MultipleChoice
from xlnet.tasks.types.ranking import Ranking
from xlnet.tasks.types.regression import Regression
from xlnet.tasks.types.spans import Spans
from xlnet.tasks.types.tagging import Tagging

KINDS = {kind.name: kind for kind in (
    Spans(), Tagging(), Ranking(), Regression(), MultipleChoice(), MultiLabel(), Classification())}
