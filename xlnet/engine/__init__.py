"""What every training needs.

`optimization` has Adam, rates and clipping, `distribution` and `hosts` the devices, `training` the
step, `checkpoint`, `saving` and `memory` what is kept, `selection` the best of it, `inference` what
a checkpoint answers, `reports` what a user sees.
"""
