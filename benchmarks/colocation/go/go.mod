module nri-coloc/colocation

go 1.24
