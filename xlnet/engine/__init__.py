"""What every training needs.

`optimization` has Adam, rates and clipping, `distribution` and `hosts` the devices, `training` the
step, `checkpoint`, `saving` and `memory` what is kept, `selection` the best of it, `inference` what it answers, `reports` what
a user sees.
"""
