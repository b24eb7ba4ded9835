"""Offsets computed in the graph are those of `offsets.Aligner`."""

import sys

import pytest
import tensorflow.compat.v1 as tf
from helpers.paths import SPIECE
from helpers.vocabulary import ODD_TEXTS, make_models, mixtures

from xlnet.offsets import Aligner
from xlnet.serving.graph_offsets import GraphAligner
from xlnet.serving.graph_tokenizer import GraphTokenizer
from xlnet.tokenization import Tokenizer
