"""The kinds of tasks by name.

Flags of own files choose the first one that says it is asked for.
"""

from xlnet.tasks.classification import Classification
from xlnet.tasks.multi_label import MultiLabel
from xlnet.tasks.multiple_choice import MultipleChoice
from xlnet.tasks.ranking import Ranking
from xlnet.tasks.regression import Regression
from xlnet.tasks.spans import Spans
from xlnet.tasks.tagging import Tagging

KINDS = {kind.name: kind for kind in (
    Spans(), Tagging(), Ranking(), Regression(), MultipleChoice(), MultiLabel(), Classification())}
